// Files as streams of bytes, whether plain or compressed with gzip or zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace scaling {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Up to `size` bytes; 0 at the end only. Throws UserError naming the file if it cannot be read
  /// or its compressed data are damaged or end too early.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

/// The file's content, decompressed: zstd by name (.zst) or first bytes, gzip by first bytes.
/// Throws UserError if it cannot be opened or is named .gz and is none.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// A file through a buffer, byte by byte or a buffer at a time.
class ByteReader {
 public:
  explicit ByteReader(const std::string& path);
  /// The next byte without taking it; -1 at the end.
  int peek() { return next_ < end_ || fill() ? static_cast<unsigned char>(buffer_[next_]) : -1; }
  void take() { ++next_; }
  /// All that is buffered, taken; empty at the end.
  std::string_view take_buffered();
  /// To be called first: a UTF-8 byte order mark is no text.
  void skip_byte_order_mark();

 private:
  bool fill();
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t next_ = 0, end_ = 0;
};

}  // namespace scaling
