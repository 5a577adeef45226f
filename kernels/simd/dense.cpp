// Dense matrix x vector, both ways round, for 1 to 16 tokens: memory-bound, so several rows stream
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
using simd::Prefetch;

/// Which kRows rows of a range run side by side: neighbours, or those of kRows shares.
template <int kRows>
struct Streams {
  Range range;
  bool are_neighbours;
  std::int64_t steps;

  Streams(Range all, bool neighbours)
      : range(all), are_neighbours(neighbours), steps(all.size() / kRows) {}
  std::int64_t row(std::int64_t step, int stream) const {
    return range.begin + (are_neighbours ? step * kRows + stream : stream * steps + step);
  }
  /// What is left over.
  Range rest() const { return {range.begin + steps * kRows, range.end}; }
  template <class T>
  HWY_INLINE void rows_at(const T* w, std::int64_t n, std::int64_t step,
                          const T* (&rows)[kRows]) const {
    for (int s = 0; s < kRows; ++s) rows[s] = w + row(step, s) * n;
  }
  /// Those of the next step too; after the last one comes nothing to ask for, so the same again.
  template <class T>
  HWY_INLINE void rows_at(const T* w, std::int64_t n, std::int64_t step, const T* (&rows)[kRows],
                          const T* (&next)[kRows]) const {
    rows_at(w, n, step, rows);
    rows_at(w, n, std::min(step + 1, steps - 1), next);
  }
};

/// A weight vector in a register serves this many tokens before the next is loaded.
inline constexpr int kTokenGroup = 4;

/// sums[s][t] = rows[s] . x[t]; the rows come from memory once, x from cache.
template <int kBytes, class T>
HWY_INLINE void dot_rows_tokens(const T* const (&rows)[kFewRows], const float* x,
                                std::int64_t x_stride, int tokens, std::int64_t n,
                                float (&sums)[kFewRows][kTokenGroup]) {
  constexpr std::int64_t kAhead = kBytes / std::int64_t(sizeof(T));
  Vector total[kFewRows][kTokenGroup];
  const float* xt[kTokenGroup];
  for (int t = 0; t < kTokenGroup; ++t) {
    // A short group computes its last token again rather than branch in the loop.
    xt[t] = x + std::min(t, tokens - 1) * x_stride;
    for (int s = 0; s < kFewRows; ++s) total[s][t] = zero();
  }
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    Vector w[kFewRows];
    for (int s = 0; s < kFewRows; ++s) {
      if constexpr (kBytes > 0) prefetch(rows[s] + c + kAhead);
      w[s] = load(rows[s] + c);
    }
    for (int t = 0; t < kTokenGroup; ++t) {
      const Vector xv = load(xt[t] + c);
      for (int s = 0; s < kFewRows; ++s) total[s][t] = hn::MulAdd(w[s], xv, total[s][t]);
    }
  }
  if (c < n) {
    for (int t = 0; t < kTokenGroup; ++t) {
      const Vector xv = load_first(xt[t] + c, n - c);
      for (int s = 0; s < kFewRows; ++s) {
        total[s][t] = hn::MulAdd(load_first(rows[s] + c, n - c), xv, total[s][t]);
      }
    }
  }
  for (int s = 0; s < kFewRows; ++s) {
    for (int t = 0; t < kTokenGroup; ++t) sums[s][t] = sum(total[s][t]);
  }
}

/// put(o, 0, w[o] . x) for outputs o, kRows at a time; returns what is left over.
template <int kRows, int kBytes, int kLines = 1, class T, class Put>
HWY_INLINE Range dot_one_token(const T* w, std::int64_t in, const float* x, Range outputs,
                               bool neighbours, const Put& put) {
  const Streams<kRows> streams(outputs, neighbours);
  const float* xs[kRows];
  std::fill(xs, xs + kRows, x);
  for (std::int64_t i = 0; i < streams.steps; ++i) {
    const T* rows[kRows];
    const T* next[kRows];
    float sums[kRows];
    streams.rows_at(w, in, i, rows, next);
    dot_rows<kBytes, kLines>(rows, next, xs, in, sums);
    for (int s = 0; s < kRows; ++s) put(streams.row(i, s), 0, sums[s]);
  }
  return streams.rest();
}

/// The same for several tokens, whose activations are x_stride apart.
template <int kBytes, class T, class Put>
HWY_INLINE Range dot_tokens(const T* w, std::int64_t in, const float* x, std::int64_t x_stride,
                            int tokens, Range outputs, bool neighbours, const Put& put) {
  const Streams<kFewRows> streams(outputs, neighbours);
  for (std::int64_t i = 0; i < streams.steps; ++i) {
    const T* rows[kFewRows];
    streams.rows_at(w, in, i, rows);
    for (int t0 = 0; t0 < tokens; t0 += kTokenGroup) {
      const int group = std::min(kTokenGroup, tokens - t0);
      float sums[kFewRows][kTokenGroup];
      dot_rows_tokens<kBytes>(rows, x + t0 * x_stride, x_stride, group, in, sums);
      for (int s = 0; s < kFewRows; ++s) {
        for (int t = 0; t < group; ++t) put(streams.row(i, s), t0 + t, sums[s][t]);
      }
    }
  }
  return streams.rest();
}

/// Whether one token's products go along rows far apart that the kernel asks for.
template <class T>
constexpr bool goes_far(Prefetch by) {
  return by == Prefetch::by_kernel_far && sizeof(T) == sizeof(float);
}

/// put(o, t, w[o] . x[t]) for every output and token.
template <class T, class Put>
HWY_INLINE void dot_all(const T* w, std::int64_t in, const float* x, std::int64_t x_stride,
                        int tokens, Range outputs, Prefetch by, const Put& put) {
  const std::int64_t row_bytes = in * std::int64_t(sizeof(T));
  Range rest = outputs;
  if (simd::is_by_processor(by)) {
    // Far apart: of neighbours in bf16, and after every barrier, prefetchers make less.
    if (tokens > 1) {
      rest = dot_tokens<kNoLead>(w, in, x, x_stride, tokens, rest, false, put);
    } else if (by == Prefetch::by_processor_of_four) {
      rest = dot_one_token<kFewRows, kNoLead>(w, in, x, rest, false, put);
    } else {
      rest = dot_one_token<kTwoRows, kNoLead>(w, in, x, rest, false, put);
    }
  } else if (tokens == 1 && goes_far<T>(by)) {
    rest = dot_one_token<kFarRows, kFarLead, kLinesAtOnce>(w, in, x, rest, false, put);
  } else if (tokens == 1) {
    const bool neighbours = !are_short(row_bytes);
    rest = neighbours ? dot_one_token<kStreams, kLead>(w, in, x, rest, neighbours, put)
                      : dot_one_token<kShortStreams, kLongLead>(w, in, x, rest, neighbours, put);
    rest = dot_one_token<kFewRows, kLongLead>(w, in, x, rest, neighbours, put);
  } else {
    // In a share each row runs on into its next, which the loop asks for.
    rest = dot_tokens<kLongLead>(w, in, x, x_stride, tokens, rest, row_bytes > 8192, put);
  }
  for (std::int64_t o = rest.begin; o < rest.end; ++o) {
    for (int t = 0; t < tokens; ++t) put(o, t, dot_row(w + o * in, x + t * x_stride, in));
  }
}

template <class T>
void dense_typed(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
                 Range outputs, bool relu, Prefetch by) {
  const std::int64_t strips = strip_count(w);
  for (std::int64_t i = 0; i < strips; ++i) {
    const WeightView part = strip(w, i);
    const bool is_first = i == 0, ends_in_relu = relu && i + 1 == strips;
    dot_all(static_cast<const T*>(part.data), part.cols, x + i * kStrip, w.cols, tokens, outputs,
            by, [&](std::int64_t o, int t, float v) {
              float& to = y[t * w.rows + o];
              if (!is_first) v += to;
              if (is_first && bias) v += bias[o];
              to = ends_in_relu ? std::max(v, 0.0f) : v;
            });
  }
}

void Dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu, Prefetch by) {
  const auto typed = w.type == WeightType::f32 ? dense_typed<float> : dense_typed<bf16>;
  typed(w, bias, x, tokens, y, outputs, relu, by);
}

/// A tile of weights, converted and copied, serves all tokens: rows a power of two apart would
/// share a few sets of the cache. 64 rows of 4 vectors are 16 KiB, a third of a first-level cache.
inline constexpr std::int64_t kTileRows = 64;
inline constexpr int kTileVectors = kVectorsOfPanel == 1 ? 4 : 2;
inline constexpr std::int64_t kTileWidth = kTileVectors * kLanes;

/// tile = columns [0, kTileWidth) of `rows` rows n apart; meanwhile the first ones of `next`, n
/// apart too, are asked for.
template <class T>
HWY_INLINE void copy_tile(const T* w, const T* next, std::int64_t n, std::int64_t rows,
                          float* tile) {
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t c = 0; c < kTileWidth; c += 64 / std::int64_t(sizeof(T))) {
      prefetch(next + j * n + c);
    }
    for (int v = 0; v < kTileVectors; ++v) {
      store(load(w + j * n + v * kLanes), tile + j * kTileWidth + v * kLanes);
    }
  }
}

/// y[t * n + c] += sum_j h[t * stride + j] tile[j][c] for up to kTokenGroup tokens.
HWY_INLINE void accumulate_tile(const float* tile, std::int64_t rows, const float* h,
                                std::int64_t stride, int tokens, std::int64_t n, float* y) {
  Vector total[kTokenGroup][kTileVectors];
  const float* ht[kTokenGroup];
  for (int t = 0; t < kTokenGroup; ++t) {
    // A short group computes its last token again rather than branch in the loop.
    ht[t] = h + std::min(t, tokens - 1) * stride;
    for (Vector& v : total[t]) v = zero();
  }
  for (std::int64_t j = 0; j < rows; ++j) {
    Vector w[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) w[v] = load(tile + j * kTileWidth + v * kLanes);
    for (int t = 0; t < kTokenGroup; ++t) {
      const Vector value = broadcast(ht[t][j]);
      for (int v = 0; v < kTileVectors; ++v) total[t][v] = hn::MulAdd(value, w[v], total[t][v]);
    }
  }
  for (int t = 0; t < tokens; ++t) {
    for (int v = 0; v < kTileVectors; ++v) {
      float* const to = y + t * n + v * kLanes;
      store(hn::Add(load(to), total[t][v]), to);
    }
  }
}

/// For several tokens, whose sums are y_stride apart: every weight comes from memory once, in
/// tiles.
template <class T>
void accumulate_tokens(const T* w, std::int64_t in, std::int64_t out, const float* h, int tokens,
                       float* y, std::int64_t y_stride, Range inputs) {
  alignas(64) float tile[kTileRows * kTileWidth];
  for (std::int64_t j = inputs.begin; j < inputs.end; j += kTileRows) {
    const std::int64_t rows = std::min(kTileRows, inputs.end - j);
    std::int64_t c = 0;
    for (; c + kTileWidth <= out; c += kTileWidth) {
      const T* const here = w + j * out + c;
      // After the last tile of these rows comes the first one of the rows below, if as many follow.
      const bool last = c + 2 * kTileWidth > out;
      const bool below = j + kTileRows + rows <= inputs.end;
      const T* const next = !last ? here + kTileWidth : below ? w + (j + kTileRows) * out : here;
      copy_tile(here, next, out, rows, tile);
      for (int t = 0; t < tokens; t += kTokenGroup) {
        accumulate_tile(tile, rows, h + t * in + j, in, std::min(kTokenGroup, tokens - t), y_stride,
                        y + t * y_stride + c);
      }
    }
    for (std::int64_t i = j; i < j + rows; ++i) {
      for (int t = 0; t < tokens; ++t) {
        accumulate_row(w + i * out + c, h[t * in + i], out - c, y + t * y_stride + c);
      }
    }
  }
}

/// y += sum_j h[j] w[j] over inputs j, kRows at a time; returns what is left over.
template <int kRows, int kBytes, int kLines = 1, class T>
HWY_INLINE Range accumulate_side_by_side(const T* w, std::int64_t out, const float* h, float* y,
                                         Range inputs, bool neighbours) {
  const Streams<kRows> streams(inputs, neighbours);
  for (std::int64_t i = 0; i < streams.steps; ++i) {
    const T* rows[kRows];
    const T* next[kRows];
    float values[kRows];
    streams.rows_at(w, out, i, rows, next);
    for (int s = 0; s < kRows; ++s) values[s] = h[streams.row(i, s)];
    accumulate_rows<kBytes, kLines>(rows, next, values, out, y);
  }
  return streams.rest();
}

/// y += sum_j h[j] w[j] over inputs j.
template <class T>
HWY_INLINE void accumulate_one_token(const T* w, std::int64_t out, const float* h, float* y,
                                     Range inputs, Prefetch by) {
  Range rest = inputs;
  if (by == Prefetch::by_processor_of_four) {
    rest = accumulate_side_by_side<kFewRows, kNoLead>(w, out, h, y, rest, false);
  } else if (by == Prefetch::by_processor_of_two) {
    rest = accumulate_side_by_side<kTwoRows, kNoLead>(w, out, h, y, rest, false);
  } else if (goes_far<T>(by)) {
    rest = accumulate_side_by_side<kFarRows, kFarLead, kLinesAtOnce>(w, out, h, y, rest, false);
  } else {
    const bool neighbours = !are_short(out * std::int64_t(sizeof(T)));
    rest = neighbours
               ? accumulate_side_by_side<kStreams, kLead>(w, out, h, y, rest, neighbours)
               : accumulate_side_by_side<kShortStreams, kLongLead>(w, out, h, y, rest, neighbours);
    rest = accumulate_side_by_side<kFewRows, kLongLead>(w, out, h, y, rest, neighbours);
  }
  for (std::int64_t j = rest.begin; j < rest.end; ++j) accumulate_row(w + j * out, h[j], out, y);
}

template <class T>
void dense_transposed_typed(const WeightView& w, const float* h, int tokens, float* y, Range inputs,
                            Prefetch by) {
  for (std::int64_t i = 0; i < strip_count(w); ++i) {
    const WeightView part = strip(w, i);
    const T* const weights = static_cast<const T*>(part.data);
    float* const to = y + i * kStrip;
    if (tokens > 1) {
      accumulate_tokens(weights, w.rows, part.cols, h, tokens, to, w.cols, inputs);
    } else {
      accumulate_one_token(weights, part.cols, h, to, inputs, by);
    }
  }
}

void DenseTransposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs,
                     Prefetch by) {
  const auto typed =
      w.type == WeightType::f32 ? dense_transposed_typed<float> : dense_transposed_typed<bf16>;
  typed(w, h, tokens, y, inputs, by);
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
  HWY_DYNAMIC_DISPATCH(Dense)(w, bias, x, tokens, y, outputs, relu, prefetch_by());
}

void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  HWY_DYNAMIC_DISPATCH(DenseTransposed)(w, h, tokens, y, inputs, prefetch_by());
}
}  // namespace scaling::simd
#endif
