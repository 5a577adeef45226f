// Counts what the C library hands out. Replaces malloc and its kin in the program, so that only one
// source of a test may include it; without glibc, or under AddressSanitizer, which replaces them
// itself, SCALING_COUNTS_ALLOCATIONS is not defined.
#pragma once

#include "tests/models/live_bytes.h"

#ifdef SCALING_COUNTS_ALLOCATIONS

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace scaling {

/// Bytes: below every matrix of the models that are counted.
inline constexpr std::size_t kLargeAllocation = 1024;
inline std::atomic<bool> is_counting{false};
/// Large allocations while is_counting.
inline std::atomic<int> large_allocations{0};

inline void count_allocation(std::size_t bytes) {
  if (is_counting.load(std::memory_order_relaxed) && bytes >= kLargeAllocation) {
    ++large_allocations;
  }
}

}  // namespace scaling

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t n, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  scaling::count_allocation(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  scaling::count_allocation(n * bytes);
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  scaling::count_allocation(bytes);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  scaling::count_allocation(bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  scaling::count_allocation(bytes);
  *to = __libc_memalign(alignment, bytes);
  return *to ? 0 : 12;
}
}

#endif
