// Rows that lie anywhere in a head's memory; included once per instruction set.
#if defined(SCALING_KERNELS_SIMD_SCATTERED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALING_KERNELS_SIMD_SCATTERED_INL_H_
#undef SCALING_KERNELS_SIMD_SCATTERED_INL_H_
#else
#define SCALING_KERNELS_SIMD_SCATTERED_INL_H_
#endif

#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

/// Rows that are asked for ahead of use, since no prefetcher can know them.
inline constexpr std::int64_t kRowsAhead = 3 * kShortStreams;

/// n >= 1 rows of d floats, of which row(i) is the i-th: visit(i, rows, next) for groups of
/// kShortStreams, i the first one's; the last row stands in for what is missing. `next` are those
/// kRowsAhead on, which visit is to ask for.
template <class Row, class Visit>
HWY_INLINE void for_scattered(std::int64_t n, std::int64_t d, const Row& row, const Visit& visit) {
  const auto at = [&](std::int64_t i) HWY_ATTR { return row(std::min(i, n - 1)); };
  const std::int64_t lead = std::min(d, kLongLead / std::int64_t(sizeof(float)));
  for (std::int64_t i = 0; i < std::min(n, kRowsAhead); ++i) {
    for (std::int64_t c = 0; c < lead; c += kLine<float>) prefetch(at(i) + c);
  }
  for (std::int64_t i = 0; i < n; i += kShortStreams) {
    const float* rows[kShortStreams];
    const float* next[kShortStreams];
    for (int k = 0; k < kShortStreams; ++k) {
      rows[k] = at(i + k);
      next[k] = at(i + kRowsAhead + k);
    }
    visit(i, rows, next);
  }
}

/// scores[i] = q . row(i)
template <class Row>
HWY_INLINE void score_scattered(std::int64_t n, std::int64_t d, const Row& row, const float* q,
                                float* scores) {
  const float* qs[kShortStreams];
  std::fill(qs, qs + kShortStreams, q);
  for_scattered(n, d, row, [&](std::int64_t i, const auto& rows, const auto& next) HWY_ATTR {
    float dots[kShortStreams];
    dot_rows<kLongLead>(rows, next, qs, d, dots);
    std::copy_n(dots, std::min<std::int64_t>(kShortStreams, n - i), scores + i);
  });
}

/// out = sum of weights[i] row(i)
template <class Row>
HWY_INLINE void mix_scattered(std::int64_t n, std::int64_t d, const Row& row, const float* weights,
                              float* out) {
  std::fill(out, out + d, 0.0f);
  for_scattered(n, d, row, [&](std::int64_t i, const auto& rows, const auto& next) HWY_ATTR {
    float factors[kShortStreams] = {};
    std::copy_n(weights + i, std::min<std::int64_t>(kShortStreams, n - i), factors);
    accumulate_rows<kLongLead>(rows, next, factors, d, out);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#endif
