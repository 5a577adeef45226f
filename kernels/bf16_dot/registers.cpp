// What needs no weights: how fast the instruction is by itself, and rounding.
#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/bf16_dot/target.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <numeric>

namespace scaling::bf16_dot {

bool is_supported() {
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

SCALING_BF16 void round(const float* x, std::int64_t n, bf16* to) {
  for (std::int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = first_lanes(n - i);
    const __m256bh halves = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
    __m256i bits;
    std::memcpy(&bits, &halves, sizeof bits);
    _mm256_mask_storeu_epi16(to + i, mask, bits);
  }
}

SCALING_BF16 float dot_registers(std::int64_t rounds, float seed) {
  constexpr int kSums = 16;
  __m512 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(seed + float(i));
  const __m512i halves = _mm512_set1_epi16(0x3f7f), tiny = _mm512_set1_epi16(0x0080);
  __m512bh a, b;
  std::memcpy(&a, &halves, sizeof a);
  std::memcpy(&b, &tiny, sizeof b);
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], a, b);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sums[0]);
  return std::accumulate(lanes, lanes + 16, 0.0f);
}

}  // namespace scaling::bf16_dot
#else
namespace scaling::bf16_dot {
bool is_supported() { return false; }
void round(const float*, std::int64_t, bf16*) {}
float dot_registers(std::int64_t, float seed) { return seed; }
}  // namespace scaling::bf16_dot
#endif
