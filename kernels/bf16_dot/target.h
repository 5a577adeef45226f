// What functions need that use the processor's bf16 dot product. Highway 1.0.3 has no such
// operation, hence intrinsics.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

#define SCALING_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace scaling {

/// The first n of 16 lanes; none if n is not positive, all if there are more.
SCALING_BF16 inline __mmask16 first_lanes(std::int64_t n) {
  return n >= 16 ? __mmask16(0xffff) : n <= 0 ? __mmask16(0) : __mmask16((1u << n) - 1);
}

}  // namespace scaling
#endif
