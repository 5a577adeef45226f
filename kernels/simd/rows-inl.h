// Four streams of weight rows at once: dot products with activations, and their transpose, a
// weighted sum.
#if defined(SCALING_KERNELS_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALING_KERNELS_SIMD_ROWS_INL_H_
#undef SCALING_KERNELS_SIMD_ROWS_INL_H_
#else
#define SCALING_KERNELS_SIMD_ROWS_INL_H_
#endif

#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

/// Rows a loop works on together. Four hide the latency of multiply-add with two vectors each, and
/// a core reads four streams somewhat faster than one.
inline constexpr int kStreams = 4;

/// Asks for the start of rows that are about to be streamed; the loops below keep that lead.
template <std::int64_t kLead, class T>
HWY_INLINE void prefetch_starts(const T* const (&rows)[kStreams], std::int64_t n) {
  const std::int64_t lead = std::min(n, kLead);
  for (std::int64_t c = 0; c < lead; c += 64 / std::int64_t(sizeof(T))) {
    for (const T* row : rows) prefetch(row + c);
  }
}

/// out[s] = rows[s] . x[s] over n elements; meanwhile the first kLead elements of `next` are asked
/// for.
template <class T, std::int64_t kLead = kAhead<T>>
HWY_INLINE void dot_rows(const T* const (&rows)[kStreams], const T* const (&next)[kStreams],
                         const float* const (&x)[kStreams], std::int64_t n,
                         float (&out)[kStreams]) {
  constexpr std::int64_t kStep = 2 * kLanes;
  Vector even[kStreams], odd[kStreams];
  for (int s = 0; s < kStreams; ++s) even[s] = odd[s] = zero();
  const auto run = [&](std::int64_t begin, std::int64_t end, const T* const(&ahead)[kStreams],
                       std::int64_t shift) HWY_ATTR {
    std::int64_t c = begin;
    for (; c + kStep <= end; c += kStep) {
      for (int s = 0; s < kStreams; ++s) {
        prefetch(ahead[s] + c + shift);
        if constexpr (kStep * sizeof(T) > 64) prefetch(ahead[s] + c + shift + kLanes);
        even[s] = hn::MulAdd(load(rows[s] + c), load(x[s] + c), even[s]);
        odd[s] = hn::MulAdd(load(rows[s] + c + kLanes), load(x[s] + c + kLanes), odd[s]);
      }
    }
    return c;
  };
  const std::int64_t split = std::max<std::int64_t>(0, n - kLead);
  std::int64_t c = run(0, split, rows, kLead);
  c = run(c, n, next, -split);
  for (; c + kLanes <= n; c += kLanes) {
    for (int s = 0; s < kStreams; ++s) {
      even[s] = hn::MulAdd(load(rows[s] + c), load(x[s] + c), even[s]);
    }
  }
  if (c < n) {
    for (int s = 0; s < kStreams; ++s) {
      odd[s] = hn::MulAdd(load_first(rows[s] + c, n - c), load_first(x[s] + c, n - c), odd[s]);
    }
  }
  for (int s = 0; s < kStreams; ++s) out[s] = sum(hn::Add(even[s], odd[s]));
}

template <class T>
HWY_INLINE float dot_row(const T* row, const float* x, std::int64_t n) {
  Vector total = zero();
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) total = hn::MulAdd(load(row + c), load(x + c), total);
  if (c < n) total = hn::MulAdd(load_first(row + c, n - c), load_first(x + c, n - c), total);
  return sum(total);
}

/// y += sum_s h[s] rows[s] over n elements; meanwhile the first kLead elements of `next` are asked
/// for.
template <class T, std::int64_t kLead = kAhead<T>>
HWY_INLINE void accumulate_rows(const T* const (&rows)[kStreams], const T* const (&next)[kStreams],
                                const float (&h)[kStreams], std::int64_t n, float* y) {
  const Vector h0 = broadcast(h[0]), h1 = broadcast(h[1]), h2 = broadcast(h[2]),
               h3 = broadcast(h[3]);
  const auto run = [&](std::int64_t begin, std::int64_t end, const T* const(&ahead)[kStreams],
                       std::int64_t shift) HWY_ATTR {
    std::int64_t c = begin;
    for (; c + kLanes <= end; c += kLanes) {
      for (int s = 0; s < kStreams; ++s) prefetch(ahead[s] + c + shift);
      // Two sums of two, so that a vector of y does not wait for four multiply-adds in a row.
      Vector a = hn::MulAdd(load(rows[0] + c), h0, load(y + c));
      Vector b = hn::Mul(load(rows[1] + c), h1);
      a = hn::MulAdd(load(rows[2] + c), h2, a);
      b = hn::MulAdd(load(rows[3] + c), h3, b);
      store(hn::Add(a, b), y + c);
    }
    return c;
  };
  const std::int64_t split = std::max<std::int64_t>(0, n - kLead);
  std::int64_t c = run(0, split, rows, kLead);
  c = run(c, n, next, -split);
  for (; c < n; ++c) {
    for (int s = 0; s < kStreams; ++s) y[c] += h[s] * to_float(rows[s][c]);
  }
}

template <class T>
HWY_INLINE void accumulate_row(const T* row, float h, std::int64_t n, float* y) {
  const Vector hv = broadcast(h);
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) store(hn::MulAdd(load(row + c), hv, load(y + c)), y + c);
  for (; c < n; ++c) y[c] += h * to_float(row[c]);
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#endif
