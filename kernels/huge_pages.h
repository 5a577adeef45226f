// Memory of which rows are read from anywhere: huge pages spare each of them a walk through page
// tables.
#pragma once

#include <cstddef>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace scaling {

/// An allocator that asks for huge pages where there is enough to fill some; advice only.
template <class T>
struct HugePages {
  using value_type = T;

  HugePages() = default;
  template <class U>
  HugePages(const HugePages<U>&) {}

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    void* const piece = ::operator new(bytes, alignment(bytes));
#if defined(__linux__)
    if (is_large(bytes)) madvise(piece, bytes, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(piece);
  }
  void deallocate(T* piece, std::size_t n) { ::operator delete(piece, alignment(n * sizeof(T))); }

  bool operator==(const HugePages&) const { return true; }

 private:
  static constexpr std::size_t kPage = std::size_t(2) << 20;
  static bool is_large(std::size_t bytes) { return bytes >= 2 * kPage; }
  static std::align_val_t alignment(std::size_t bytes) {
    return std::align_val_t(is_large(bytes) ? kPage : 64);
  }
};

}  // namespace scaling
