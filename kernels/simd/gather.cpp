// Gathered rows of the sparse feed-forward: kShortStreams selected rows stream side by side. Where
// the processor does not prefetch them well, the next ones are asked for meanwhile, so that a jump
// costs no more than going on.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/gather.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "kernels/kernels.h"
#include "kernels/simd/rows-inl.h"
#include "kernels/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {
using simd::Prefetch;

/// run.operator()<bytes that the kernel asks ahead>(weights)
template <class Run>
void with_lead(const WeightView& w, Prefetch by, const Run& run) {
  const bool asks = by != Prefetch::by_processor_of_four;
  if (w.type == WeightType::f32) {
    asks ? run.template operator()<kLongLead>(w.f32()) : run.template operator()<kNoLead>(w.f32());
  } else {
    asks ? run.template operator()<kLongLead>(w.half())
         : run.template operator()<kNoLead>(w.half());
  }
}

/// Pointers to the rows of selections [i, i + kShortStreams), as far as there are any; the last one
/// stands in for what is missing.
template <class T>
HWY_INLINE void rows_of(const T* w, std::int64_t d, const Selection* s, std::int64_t n,
                        std::int64_t i, const T* (&rows)[kShortStreams]) {
  for (int k = 0; k < kShortStreams; ++k) rows[k] = w + s[std::min(i + k, n - 1)].row * d;
}

template <int kBytes, class T>
void gather_dot_typed(const T* w, std::int64_t d, const float* bias, const Selection* s,
                      std::int64_t n, const float* x, float* h) {
  const T* rows[kShortStreams];
  const T* next[kShortStreams];
  if (n > 0) {
    rows_of(w, d, s, n, 0, next);
    prefetch_starts<kBytes>(next, d);
  }
  for (std::int64_t i = 0; i < n; i += kShortStreams) {
    std::copy(next, next + kShortStreams, rows);
    rows_of(w, d, s, n, i + kShortStreams, next);
    const std::int64_t group = std::min<std::int64_t>(kShortStreams, n - i);
    const float* xs[kShortStreams];
    for (int k = 0; k < kShortStreams; ++k) xs[k] = x + s[std::min(i + k, n - 1)].token * d;
    float sums[kShortStreams];
    dot_rows<kBytes>(rows, next, xs, d, sums);
    for (int k = 0; k < group; ++k) {
      const float z = bias ? sums[k] + bias[s[i + k].row] : sums[k];
      h[i + k] = std::max(z, 0.0f);
    }
  }
}

void GatherDot(const WeightView& w, const float* bias, const Selection* s, std::int64_t n,
               const float* x, float* h, Prefetch by) {
  with_lead(w, by, [&]<int kBytes>(const auto* rows) HWY_ATTR {
    gather_dot_typed<kBytes>(rows, w.cols, bias, s, n, x, h);
  });
}

template <int kBytes, class T>
void gather_accumulate_typed(const T* w, std::int64_t d, const Selection* s, std::int64_t n,
                             const float* h, float* y) {
  const T* rows[kShortStreams];
  const T* next[kShortStreams];
  if (n > 0) {
    rows_of(w, d, s, n, 0, next);
    prefetch_starts<kBytes>(next, d);
  }
  for (std::int64_t i = 0; i < n; i += kShortStreams) {
    std::copy(next, next + kShortStreams, rows);
    rows_of(w, d, s, n, i + kShortStreams, next);
    const std::int64_t group = std::min<std::int64_t>(kShortStreams, n - i);
    bool one_token = true;
    float hs[kShortStreams] = {};
    for (int k = 0; k < group; ++k) {
      hs[k] = h[i + k];
      one_token = one_token && s[i + k].token == s[i].token;
    }
    if (one_token) {
      accumulate_rows<kBytes>(rows, next, hs, d, y + s[i].token * d);
      continue;
    }
    prefetch_starts<kBytes>(next, d);
    for (int k = 0; k < group; ++k) {
      accumulate_row(rows[k], hs[k], d, y + s[i + k].token * d);
    }
  }
}

void GatherAccumulate(const WeightView& w, const Selection* s, std::int64_t n, const float* h,
                      float* y, Prefetch by) {
  with_lead(w, by, [&]<int kBytes>(const auto* rows) HWY_ATTR {
    gather_accumulate_typed<kBytes>(rows, w.cols, s, n, h, y);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling::simd {
HWY_EXPORT(GatherDot);
HWY_EXPORT(GatherAccumulate);

void gather_dot(const WeightView& w, const float* bias, const Selection* s, std::int64_t n,
                const float* x, float* h) {
  HWY_DYNAMIC_DISPATCH(GatherDot)(w, bias, s, n, x, h, prefetch_by());
}

void gather_accumulate(const WeightView& w, const Selection* s, std::int64_t n, const float* h,
                       float* y) {
  HWY_DYNAMIC_DISPATCH(GatherAccumulate)(w, s, n, h, y, prefetch_by());
}
}  // namespace scaling::simd
#endif
