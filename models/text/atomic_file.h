// A file that appears under its name whole or not at all.
#pragma once

#include <cstddef>
#include <string>

namespace scaling {

/// Written beside `path` under a name of its own, so that concurrent runs may make the same file;
/// what killed ones have left there is removed.
/// Everything throws UserError naming the file and the system's reason (disk full and the like).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  /// Removes what was written unless commit was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  /// Replaces bytes at the file's start; later writes still append.
  void write_start(const void* data, std::size_t size);
  /// Onto the disk and to its name.
  void commit();

 private:
  [[noreturn]] void fail() const;
  void write_at(const char* data, std::size_t size, std::size_t offset);

  std::string path_, temporary_;
  std::size_t size_ = 0;
  int file_ = -1;
};

}  // namespace scaling
