// Bytes that this process has in use: of the heap, by the C library; resident, by the system.
#pragma once

#include <malloc.h>

namespace scaling {

/// Bytes of the heap, carved out of arenas or mapped; freed memory does not count.
inline double heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return double(info.uordblks) + double(info.hblkhd);
}

/// Gives freed pages back to the system, so that they do not count as resident.
inline void return_free_memory() { malloc_trim(0); }

/// Heaps that other threads get keep freed pages at their end: from here on all threads share one.
inline void use_one_heap() { mallopt(M_ARENA_MAX, 1); }

/// Forgets the process's peak so far, where the system lets it.
void reset_peak_memory();
/// Peak resident bytes since then (or since the process began); not a number if unknown.
double peak_memory();

}  // namespace scaling
