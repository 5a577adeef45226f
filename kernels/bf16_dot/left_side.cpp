// Both makers of left sides: modules scaled by the input, and channels of frames.
#include "kernels/bf16_dot/left_side.h"

#if defined(__x86_64__)

namespace scaling::bf16_dot {
namespace {

/// Left side of all tokens: a share of a second-level cache.
constexpr std::int64_t kLeftBytes = 256 << 10;

/// Rounded, `even` in the lower halves.
SCALING_BF16 inline __m512i rounded_pairs(__m512 even, __m512 odd) {
  const __m512bh halves = _mm512_cvtne2ps_pbh(odd, even);
  __m512i bits;
  std::memcpy(&bits, &halves, sizeof bits);
  return paired(bits);
}

/// Sixteen values of row k of d, scaled by x; zero where the mask has none.
SCALING_BF16 inline __m512 scaled(const bf16* d, __mmask16 mask, float x) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, d));
  return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)), _mm512_set1_ps(x));
}

SCALING_BF16 void write_scaled(const bf16* d, const float* x, std::int64_t rows,
                               std::int64_t modules, std::uint32_t* to, std::int64_t stride) {
  for (std::int64_t k = 0; k < rows; k += 2, d += 2 * modules, to += stride) {
    const bool both = k + 1 < rows;
    for (std::int64_t s = 0; s < modules; s += kLanes) {
      const __mmask16 mask = first_lanes(modules - s);
      const __m512 even = scaled(d + s, mask, x[k]);
      const __m512 odd = both ? scaled(d + modules + s, mask, x[k + 1]) : _mm512_setzero_ps();
      _mm512_store_si512(to + s, rounded_pairs(even, odd));
    }
  }
}

SCALING_BF16 void write_channels(const float* frame, std::int64_t frame_stride, std::int64_t rows,
                                 std::int64_t modules, std::uint32_t* to, std::int64_t stride) {
  for (std::int64_t k = 0; k < rows; k += 2, frame += 2 * frame_stride, to += stride) {
    for (std::int64_t s = 0; s < modules; s += kLanes) {
      const __mmask16 mask = first_lanes(modules - s),
                      odd_mask = k + 1 < rows ? mask : __mmask16(0);
      const __m512 even = _mm512_maskz_loadu_ps(mask, frame + s);
      const __m512 odd = _mm512_maskz_loadu_ps(odd_mask, frame + frame_stride + s);
      _mm512_store_si512(to + s, rounded_pairs(even, odd));
    }
  }
}

}  // namespace

thread_local std::vector<Line> LeftSides::lines_;

LeftSides::LeftSides(std::int64_t modules, int tokens, const RowChoice& choice)
    : modules_(modules),
      tokens_(tokens),
      // A line more than needed, so that consecutive pairs do not share few sets of the cache.
      stride_(((modules + kLanes - 1) / kLanes + 1) * kLanes),
      step_(choice.step) {
  const std::int64_t row_bytes = std::int64_t(sizeof(bf16)) * stride_ * tokens;
  const std::int64_t fit = kLeftBytes / row_bytes / step_ * step_;
  most_rows_ = std::clamp(fit, choice.least, choice.most);
  const auto lines = std::size_t(tokens * most_rows_ / 2 * stride_ / kLanes);
  if (lines_.size() < lines) lines_.resize(lines);
}

void LeftSides::scale_rows(int token, const bf16* d, const float* x, std::int64_t rows) const {
  write_scaled(d, x, rows, modules_, of(token), stride_);
}

void LeftSides::take_channels(int token, const float* frame, std::int64_t frame_stride,
                              std::int64_t rows) const {
  write_channels(frame, frame_stride, rows, modules_, of(token), stride_);
}

}  // namespace scaling::bf16_dot
#endif
