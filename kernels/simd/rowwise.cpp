// Layer norm, softmax and attention over a cache: short rows, computed where they lie.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/rowwise.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/kernels.h"
#include "kernels/simd/rows-inl.h"
#include "kernels/simd/scattered-inl.h"
#include "kernels/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {
using simd::Prefetch;

void LayerNorm(const float* x, const float* scale, const float* bias, int tokens, std::int64_t d,
               float* y) {
  for (int t = 0; t < tokens; ++t, x += d, y += d) {
    Vector total = zero();
    std::int64_t c = 0;
    for (; c + kLanes <= d; c += kLanes) total = hn::Add(total, load(x + c));
    float sum_x = sum(total);
    for (; c < d; ++c) sum_x += x[c];
    const float mean = sum_x / float(d);

    const Vector means = broadcast(mean);
    Vector squares = zero();
    for (c = 0; c + kLanes <= d; c += kLanes) {
      const Vector centred = hn::Sub(load(x + c), means);
      squares = hn::MulAdd(centred, centred, squares);
    }
    float sum_squares = sum(squares);
    for (; c < d; ++c) sum_squares += (x[c] - mean) * (x[c] - mean);
    const float inverse = 1.0f / std::sqrt(sum_squares / float(d) + 1e-6f);

    const Vector inverses = broadcast(inverse);
    for (c = 0; c + kLanes <= d; c += kLanes) {
      const Vector normal = hn::Mul(hn::Sub(load(x + c), means), inverses);
      store(hn::MulAdd(normal, load(scale + c), load(bias + c)), y + c);
    }
    for (; c < d; ++c) y[c] = scale[c] * (x[c] - mean) * inverse + bias[c];
  }
}

void Softmax(float* x, std::int64_t n) {
  float largest = x[0];
  std::int64_t i = 0;
  if (n >= kLanes) {
    Vector most = load(x);
    for (i = kLanes; i + kLanes <= n; i += kLanes) most = hn::Max(most, load(x + i));
    largest = hn::GetLane(hn::MaxOfLanes(Floats(), most));
  }
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  const Vector shift = broadcast(largest);
  Vector total = zero();
  i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector e = hn::Exp(Floats(), hn::Sub(load(x + i), shift));
    total = hn::Add(total, e);
    store(e, x + i);
  }
  float sum_x = sum(total);
  for (; i < n; ++i) {
    x[i] = std::exp(x[i] - largest);
    sum_x += x[i];
  }
  const float inverse = 1.0f / sum_x;
  const Vector inverses = broadcast(inverse);
  for (i = 0; i + kLanes <= n; i += kLanes) store(hn::Mul(load(x + i), inverses), x + i);
  for (; i < n; ++i) x[i] *= inverse;
}

/// Rows of keys and of values that are asked for ahead of use where they are neighbours: rows are
/// short.
inline constexpr std::int64_t kNeighboursAhead = 4 * kFewRows;

/// The first rows of a memory. kAhead: bytes ahead of its use that a stream is asked for; kNoLead:
/// the processor's own prefetching does it.
template <int kAhead>
void attend_first(const float* q, const HeadMemory& memory, float* scores, float* out) {
  const std::int64_t length = memory.length, d = memory.d_head;
  const auto rows_at = [&](const float* rows, std::int64_t i, const float*(&at)[kFewRows]) {
    for (int s = 0; s < kFewRows; ++s) at[s] = rows + std::min(i + s, length - 1) * d;
  };
  const float* rows[kFewRows];
  const float* next[kFewRows];
  const float* qs[kFewRows];
  std::fill(qs, qs + kFewRows, q);
  // What the loops do not ask for: short memories are all of it, and come from far away one by one.
  const std::int64_t ahead = std::min(length, kNeighboursAhead) * d;
  for (const float* start : {memory.keys, memory.values}) {
    for (std::int64_t c = 0; c < ahead; c += kLine<float>) prefetch(start + c);
  }
  const float scale = 1.0f / std::sqrt(float(d));
  std::int64_t i = 0;
  for (; i + kFewRows <= length; i += kFewRows) {
    rows_at(memory.keys, i, rows);
    rows_at(memory.keys, i + kNeighboursAhead, next);
    float dots[kFewRows];
    dot_rows<kAhead>(rows, next, qs, d, dots);
    for (int s = 0; s < kFewRows; ++s) scores[i + s] = dots[s] * scale;
  }
  for (; i < length; ++i) scores[i] = dot_row(memory.keys + i * d, q, d) * scale;
  Softmax(scores, length);
  std::fill(out, out + d, 0.0f);
  for (i = 0; i + kFewRows <= length; i += kFewRows) {
    rows_at(memory.values, i, rows);
    rows_at(memory.values, i + kNeighboursAhead, next);
    float weights[kFewRows];
    std::copy(scores + i, scores + i + kFewRows, weights);
    accumulate_rows<kAhead>(rows, next, weights, d, out);
  }
  for (; i < length; ++i) accumulate_row(memory.values + i * d, scores[i], d, out);
}

void attend_scattered(const float* q, const HeadMemory& memory, float* scores, float* out) {
  const std::int64_t length = memory.length, d = memory.d_head;
  const auto row_of = [&](const float* rows) {
    return [&memory, rows, d](std::int64_t i) { return rows + memory.position(i) * d; };
  };
  score_scattered(length, d, row_of(memory.keys), q, scores);
  const float scale = 1.0f / std::sqrt(float(d));
  for (std::int64_t i = 0; i < length; ++i) scores[i] *= scale;
  Softmax(scores, length);
  mix_scattered(length, d, row_of(memory.values), scores, out);
}

void Attend(const float* q, const HeadMemory& memory, float* scores, float* out, Prefetch by) {
  if (memory.positions) {
    attend_scattered(q, memory, scores, out);
  } else if (!simd::is_by_processor(by)) {
    attend_first<kLead>(q, memory, scores, out);
  } else {
    attend_first<kNoLead>(q, memory, scores, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling::simd {
HWY_EXPORT(LayerNorm);
HWY_EXPORT(Softmax);
HWY_EXPORT(Attend);

void layer_norm(const float* x, const float* scale, const float* bias, int tokens, std::int64_t d,
                float* y) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(x, scale, bias, tokens, d, y);
}

void softmax(float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(Softmax)(x, n); }

void attend(const float* q, const HeadMemory& memory, float* scores, float* out) {
  HWY_DYNAMIC_DISPATCH(Attend)(q, memory, scores, out, prefetch_by());
}
}  // namespace scaling::simd
#endif
