// Large, zeroed, huge-page-advised memory for weights, refused before it is taken if it cannot fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace scaling {

/// Bytes this process may still take: the machine's available memory or what the control group's
/// limit (a container's, version 1 or 2) leaves, whichever is less.
std::uint64_t available_memory();

/// The least that any control group from a process's own up to the root leaves, bytes; the largest
/// number there is if none sets a limit or what it says cannot be read. own_groups: the process's
/// list of them (/proc/self/cgroup). mounted_at: /sys/fs/cgroup.
std::uint64_t control_groups_leave(const std::string& own_groups, const std::string& mounted_at);

/// Throws UserError naming both numbers and `remedy` if `bytes` exceed available memory less a
/// reserve of 512 MiB.
void require_memory(std::uint64_t bytes, const std::string& what, const std::string& remedy);

/// One anonymous mapping, 2 MiB-aligned, pages placed by whoever first touches them. Pieces are
/// 64-byte aligned and live as long as the arena.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::uint64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;

  void* take(std::uint64_t bytes);
  /// Of what is filled by now: asks for huge pages where the system had none whole when pages were
  /// placed. Takes a while where there are many such; advice only, of Linux 6.1.
  void gather_pages() const;
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  const void* data() const { return base_; }

  /// What take() will really use for a piece.
  static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  void* mapping_ = nullptr;
  std::uint64_t mapped_ = 0;
  char* base_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace scaling
