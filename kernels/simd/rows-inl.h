// Several weight rows at once: dot products with activations, and their transpose, a weighted sum.
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

/// Rows that are read from memory side by side. A core that goes along one row waits for a miss or
/// two at a time, along sixteen it keeps as many under way as it can hold. Their sums must fit into
/// registers, of which x86 has 32 with vectors of 64 bytes and 16 else.
inline constexpr int kStreams = HWY_MAX_BYTES >= 64 ? 16 : 8;
/// Rows shorter than a page: neighbours would share pages, and the processor's own prefetching
/// follows one stream a page.
HWY_INLINE bool are_short(std::int64_t row_bytes) { return row_bytes < 4096; }
/// The streams of short rows, which must be far apart to be streams of their own, and of gathered
/// rows, of which a thread may have no more than some dozens.
inline constexpr int kShortStreams = 8;
/// Rows in cache, or too few for streams: with two sums each they hide the latency of multiply-add.
inline constexpr int kFewRows = 4;
/// Fewer yet, for processors whose prefetching follows two streams faster than four.
inline constexpr int kTwoRows = 2;

template <class T>
inline constexpr std::int64_t kLine = 64 / std::int64_t(sizeof(T));
/// How many bytes ahead of its use a stream of weights is asked for.
inline constexpr int kLead = 1024;
/// The same where streams are few or rows short.
inline constexpr int kLongLead = 2048;
/// Of f32 on some processors: rows far apart, whose lines go to the second-level cache,
/// kLinesAtOnce at a time, so many bytes ahead.
inline constexpr int kFarRows = 4;
inline constexpr int kFarLead = 512;
inline constexpr int kLinesAtOnce = 4;
/// Nothing is asked for: the processor's own prefetching does it.
inline constexpr int kNoLead = 0;

/// Asks for the start of rows that are about to be streamed; the loops below keep that lead.
template <int kBytes, class T, int kRows>
HWY_INLINE void prefetch_starts(const T* const (&rows)[kRows], std::int64_t n) {
  const std::int64_t lead = std::min(n, kBytes / std::int64_t(sizeof(T)));
  for (std::int64_t c = 0; c < lead; c += kLine<T>) {
    for (const T* row : rows) prefetch(row + c);
  }
}

/// Asks for one of kLines lines that are asked for at a time.
template <int kLines, class T>
HWY_INLINE void ask(const T* p) {
  if constexpr (kLines > 1) {
    prefetch_far(p);
  } else {
    prefetch(p);
  }
}

/// out[s] = rows[s] . x[s] over n elements; meanwhile the first kBytes of each of `next` are asked
/// for, and the rest of each row kBytes ahead, kLines lines at a time.
template <int kBytes, int kLines = 1, class T, int kRows>
HWY_INLINE void dot_rows(const T* const (&rows)[kRows], const T* const (&next)[kRows],
                         const float* const (&x)[kRows], std::int64_t n, float (&out)[kRows]) {
  constexpr std::int64_t kAhead = kBytes / std::int64_t(sizeof(T));
  constexpr int kSums = kRows < 8 ? 2 : 1;  // eight multiply-adds under way at least
  constexpr std::int64_t kStep = HWY_MAX(kLines * kLine<T>, kSums * kLanes);
  Vector total[kRows][kSums];
  for (auto& sums : total) {
    for (Vector& v : sums) v = zero();
  }
  const auto run = [&](std::int64_t begin, std::int64_t end, const T* const(&ahead)[kRows],
                       std::int64_t shift) HWY_ATTR {
    std::int64_t c = begin;
    for (; c + kStep <= end; c += kStep) {
      for (int s = 0; s < kRows; ++s) {
        if constexpr (kBytes > 0) {
          for (std::int64_t l = 0; l < kStep; l += kLine<T>) {
            ask<kLines>(ahead[s] + c + shift + l);
          }
        }
        for (int v = 0; v < kStep / kLanes; ++v) {
          Vector& to = total[s][v % kSums];
          to = hn::MulAdd(load(rows[s] + c + v * kLanes), load(x[s] + c + v * kLanes), to);
        }
      }
    }
    return c;
  };
  const std::int64_t split = std::max<std::int64_t>(0, n - kAhead);
  std::int64_t c = run(0, split, rows, kAhead);
  c = run(c, n, next, -split);
  for (; c + kLanes <= n; c += kLanes) {
    for (int s = 0; s < kRows; ++s) {
      total[s][0] = hn::MulAdd(load(rows[s] + c), load(x[s] + c), total[s][0]);
    }
  }
  if (c < n) {
    for (int s = 0; s < kRows; ++s) {
      Vector& to = total[s][kSums - 1];
      to = hn::MulAdd(load_first(rows[s] + c, n - c), load_first(x[s] + c, n - c), to);
    }
  }
  for (int s = 0; s < kRows; ++s) {
    out[s] = sum(kSums == 1 ? total[s][0] : hn::Add(total[s][0], total[s][kSums - 1]));
  }
}

template <class T>
HWY_INLINE float dot_row(const T* row, const float* x, std::int64_t n) {
  Vector total = zero();
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) total = hn::MulAdd(load(row + c), load(x + c), total);
  if (c < n) total = hn::MulAdd(load_first(row + c, n - c), load_first(x + c, n - c), total);
  return sum(total);
}

/// y += sum_s h[s] rows[s] over n elements; meanwhile the first kBytes of each of `next` are asked
/// for, kLines lines at a time. kRows is even.
template <int kBytes, int kLines = 1, class T, int kRows>
HWY_INLINE void accumulate_rows(const T* const (&rows)[kRows], const T* const (&next)[kRows],
                                const float (&h)[kRows], std::int64_t n, float* y) {
  constexpr std::int64_t kAhead = kBytes / std::int64_t(sizeof(T));
  constexpr std::int64_t kStep = kLines * kLine<T>;
  Vector factor[kRows];
  for (int s = 0; s < kRows; ++s) factor[s] = broadcast(h[s]);
  const auto run = [&](std::int64_t begin, std::int64_t end, const T* const(&ahead)[kRows],
                       std::int64_t shift) HWY_ATTR {
    std::int64_t c = begin;
    for (; c + kStep <= end; c += kStep) {
      if constexpr (kBytes > 0) {
        for (int s = 0; s < kRows; ++s) {
          for (std::int64_t l = 0; l < kStep; l += kLine<T>) ask<kLines>(ahead[s] + c + shift + l);
        }
      }
      for (std::int64_t v = c; v < c + kStep; v += kLanes) {
        // Two sums, so that a vector of y does not wait for all multiply-adds in a row.
        Vector a = hn::MulAdd(load(rows[0] + v), factor[0], load(y + v));
        Vector b = hn::Mul(load(rows[1] + v), factor[1]);
        for (int s = 2; s < kRows; s += 2) {
          a = hn::MulAdd(load(rows[s] + v), factor[s], a);
          b = hn::MulAdd(load(rows[s + 1] + v), factor[s + 1], b);
        }
        store(hn::Add(a, b), y + v);
      }
    }
    return c;
  };
  const std::int64_t split = std::max<std::int64_t>(0, n - kAhead);
  std::int64_t c = run(0, split, rows, kAhead);
  c = run(c, n, next, -split);
  for (; c + kLanes <= n; c += kLanes) {
    Vector v = load(y + c);
    for (int s = 0; s < kRows; ++s) v = hn::MulAdd(load(rows[s] + c), factor[s], v);
    store(v, y + c);
  }
  for (; c < n; ++c) {
    for (int s = 0; s < kRows; ++s) y[c] += h[s] * to_float(rows[s][c]);
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
