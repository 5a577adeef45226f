// What the C library has handed out. Without glibc, or under AddressSanitizer, which replaces it,
// SCALING_COUNTS_ALLOCATIONS is not defined.
#pragma once

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define SCALING_COUNTS_ALLOCATIONS

#include <malloc.h>

#include <cstdint>

namespace scaling {

/// Handed out and not given back.
inline std::int64_t live_bytes() {
  const struct mallinfo2 all = mallinfo2();
  return std::int64_t(all.uordblks + all.hblkhd);
}

}  // namespace scaling

#endif
