// Dense matrix x vector, both ways round, for 1 to 16 tokens: memory-bound, so four rows stream
// side by side.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/dense.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "kernels/kernels.h"
#include "kernels/simd/rows-inl.h"
#include "kernels/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

/// Which rows run side by side. Short rows: each stream goes through its own quarter of the range,
/// so that it runs on from row to row. Long rows (with activations that do not fit into a
/// first-level cache beside them): neighbours. Measured with rows of 2 to 36 KiB; the wrong choice
/// costs a tenth.
struct Streams {
  Range range;
  bool is_long;
  std::int64_t steps;

  Streams(Range all, std::int64_t row_bytes)
      : range(all), is_long(row_bytes > 8192), steps(all.size() / kStreams) {}
  std::int64_t row(std::int64_t step, int stream) const {
    return range.begin + (is_long ? step * kStreams + stream : stream * steps + step);
  }
  /// The first row that is left over.
  std::int64_t rest() const { return range.begin + steps * kStreams; }
  template <class T>
  HWY_INLINE void rows_at(const T* w, std::int64_t n, std::int64_t step,
                          const T* (&rows)[kStreams]) const {
    for (int s = 0; s < kStreams; ++s) rows[s] = w + row(step, s) * n;
  }
};

/// A weight vector in a register serves this many tokens before the next is loaded.
inline constexpr int kTokenGroup = 4;

/// sums[s][t] = rows[s] . x[t]; the rows come from memory once, x from cache.
template <class T>
HWY_INLINE void dot_rows_tokens(const T* const (&rows)[kStreams], const float* x,
                                std::int64_t x_stride, int tokens, std::int64_t n,
                                float (&sums)[kStreams][kTokenGroup]) {
  Vector total[kStreams][kTokenGroup];
  const float* xt[kTokenGroup];
  for (int t = 0; t < kTokenGroup; ++t) {
    // A short group computes its last token again rather than branch in the loop.
    xt[t] = x + std::min(t, tokens - 1) * x_stride;
    for (int s = 0; s < kStreams; ++s) total[s][t] = zero();
  }
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Vector w[kStreams];
    for (int s = 0; s < kStreams; ++s) {
      prefetch(rows[s] + c + kAhead<T>);
      w[s] = load(rows[s] + c);
    }
    for (int t = 0; t < kTokenGroup; ++t) {
      const Vector xv = load(xt[t] + c);
      for (int s = 0; s < kStreams; ++s) total[s][t] = hn::MulAdd(w[s], xv, total[s][t]);
    }
  }
  if (c < n) {
    for (int t = 0; t < kTokenGroup; ++t) {
      const Vector xv = load_first(xt[t] + c, n - c);
      for (int s = 0; s < kStreams; ++s) {
        total[s][t] = hn::MulAdd(load_first(rows[s] + c, n - c), xv, total[s][t]);
      }
    }
  }
  for (int s = 0; s < kStreams; ++s) {
    for (int t = 0; t < kTokenGroup; ++t) sums[s][t] = sum(total[s][t]);
  }
}

template <class T>
void dense_typed(const T* w, std::int64_t in, std::int64_t out, const float* bias, const float* x,
                 int tokens, float* y, Range outputs, bool relu) {
  const auto put = [&](std::int64_t o, int t, float v) {
    if (bias) v += bias[o];
    y[t * out + o] = relu ? std::max(v, 0.0f) : v;
  };
  const Streams streams(outputs, in * std::int64_t(sizeof(T)));
  for (std::int64_t i = 0; i < streams.steps; ++i) {
    const T* rows[kStreams];
    const T* next[kStreams];
    streams.rows_at(w, in, i, rows);
    streams.rows_at(w, in, i + 1, next);
    if (tokens == 1) {
      const float* const xs[kStreams] = {x, x, x, x};
      float sums[kStreams];
      streams.is_long ? dot_rows<T, kAheadOfLong<T>>(rows, next, xs, in, sums)
                      : dot_rows<T>(rows, next, xs, in, sums);
      for (int s = 0; s < kStreams; ++s) put(streams.row(i, s), 0, sums[s]);
      continue;
    }
    for (int t0 = 0; t0 < tokens; t0 += kTokenGroup) {
      const int group = std::min(kTokenGroup, tokens - t0);
      float sums[kStreams][kTokenGroup];
      dot_rows_tokens<T>(rows, x + t0 * in, in, group, in, sums);
      for (int s = 0; s < kStreams; ++s) {
        for (int t = 0; t < group; ++t) {
          put(streams.row(i, s), t0 + t, sums[s][t]);
        }
      }
    }
  }
  for (std::int64_t o = streams.rest(); o < outputs.end; ++o) {
    for (int t = 0; t < tokens; ++t) put(o, t, dot_row(w + o * in, x + t * in, in));
  }
}

void Dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  if (w.type == WeightType::f32) {
    dense_typed(w.f32(), w.cols, w.rows, bias, x, tokens, y, outputs, relu);
  } else {
    dense_typed(w.half(), w.cols, w.rows, bias, x, tokens, y, outputs, relu);
  }
}

/// y[t] += sum_s h[s][t * stride] rows[s] for several tokens: a vector of each row is loaded once.
template <class T>
HWY_INLINE void accumulate_rows_tokens(const T* const (&rows)[kStreams],
                                       const float* const (&h)[kStreams], std::int64_t stride,
                                       int tokens, std::int64_t n, float* y) {
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Vector w[kStreams];
    for (int s = 0; s < kStreams; ++s) {
      prefetch(rows[s] + c + kAhead<T>);
      w[s] = load(rows[s] + c);
    }
    for (int t = 0; t < tokens; ++t) {
      Vector v = load(y + t * n + c);
      for (int s = 0; s < kStreams; ++s) v = hn::MulAdd(w[s], broadcast(h[s][t * stride]), v);
      store(v, y + t * n + c);
    }
  }
  for (; c < n; ++c) {
    for (int t = 0; t < tokens; ++t) {
      for (int s = 0; s < kStreams; ++s) {
        y[t * n + c] += h[s][t * stride] * to_float(rows[s][c]);
      }
    }
  }
}

template <class T>
void dense_transposed_typed(const T* w, std::int64_t in, std::int64_t out, const float* h,
                            int tokens, float* y, Range inputs) {
  const Streams streams(inputs, out * std::int64_t(sizeof(T)));
  for (std::int64_t i = 0; i < streams.steps; ++i) {
    const T* rows[kStreams];
    const T* next[kStreams];
    streams.rows_at(w, out, i, rows);
    streams.rows_at(w, out, i + 1, next);
    const float* hs[kStreams];
    for (int s = 0; s < kStreams; ++s) hs[s] = h + streams.row(i, s);
    if (tokens > 1) {
      accumulate_rows_tokens<T>(rows, hs, in, tokens, out, y);
      continue;
    }
    const float values[kStreams] = {*hs[0], *hs[1], *hs[2], *hs[3]};
    streams.is_long ? accumulate_rows<T, kAheadOfLong<T>>(rows, next, values, out, y)
                    : accumulate_rows<T>(rows, next, values, out, y);
  }
  for (std::int64_t j = streams.rest(); j < inputs.end; ++j) {
    for (int t = 0; t < tokens; ++t) accumulate_row(w + j * out, h[t * in + j], out, y + t * out);
  }
}

void DenseTransposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  if (w.type == WeightType::f32) {
    dense_transposed_typed(w.f32(), w.rows, w.cols, h, tokens, y, inputs);
  } else {
    dense_transposed_typed(w.half(), w.rows, w.cols, h, tokens, y, inputs);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling::simd {
HWY_EXPORT(Dense);
HWY_EXPORT(DenseTransposed);

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  HWY_DYNAMIC_DISPATCH(Dense)(w, bias, x, tokens, y, outputs, relu);
}

void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  HWY_DYNAMIC_DISPATCH(DenseTransposed)(w, h, tokens, y, inputs);
}
}  // namespace scaling::simd
#endif
