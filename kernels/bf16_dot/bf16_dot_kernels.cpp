// The set that rounds activations too: products of bf16 weights by the processor's bf16 dot
// product. All else is the simd set's.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/bf16_dot/target.h"
#include "kernels/bf16_dot/tiles.h"
#include "kernels/simd/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace scaling {

#if defined(__x86_64__)
namespace {

/// Values of a vector of bf16 pairs.
constexpr std::int64_t kPairs = 32;
constexpr std::int64_t kAheadElements = 1024;

SCALING_BF16 inline __m512bh load_pairs(const bf16* p) {
  __m512bh v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// sums[s] = rows[s] . x over n elements. kAsk: whether it asks memory ahead.
template <bool kAsk, int kRows>
SCALING_BF16 void dot_rows(const bf16* const (&rows)[kRows], const bf16* x, std::int64_t n,
                           float (&sums)[kRows]) {
  __m512 even[kRows], odd[kRows];
  for (int s = 0; s < kRows; ++s) even[s] = odd[s] = _mm512_setzero_ps();
  std::int64_t c = 0;
  for (; c + 2 * kPairs <= n; c += 2 * kPairs) {
    const __m512bh x0 = load_pairs(x + c), x1 = load_pairs(x + c + kPairs);
    for (int s = 0; s < kRows; ++s) {
      if constexpr (kAsk) {
        __builtin_prefetch(rows[s] + c + kAheadElements);
        __builtin_prefetch(rows[s] + c + kAheadElements + kPairs);
      }
      even[s] = _mm512_dpbf16_ps(even[s], load_pairs(rows[s] + c), x0);
      odd[s] = _mm512_dpbf16_ps(odd[s], load_pairs(rows[s] + c + kPairs), x1);
    }
  }
  for (int s = 0; s < kRows; ++s) {
    // By way of memory: the reduction intrinsic warns of its own internals on g++ 12.
    alignas(64) float lanes[16];
    _mm512_store_ps(lanes, _mm512_add_ps(even[s], odd[s]));
    sums[s] = std::accumulate(lanes, lanes + 16, 0.0f);
    for (std::int64_t i = c; i < n; ++i) sums[s] += to_float(rows[s][i]) * to_float(x[i]);
  }
}

/// put(o, t, w[o] . x[t]) for every output and token; w in rows, tokens x_stride apart.
template <bool kAsk, int kRows, class Put>
void dot_side_by_side(const WeightView& w, const bf16* x, std::int64_t x_stride, int tokens,
                      Range outputs, const Put& put) {
  // Rows of a share each, far apart: neighbours would be one stream to the processor's prefetching.
  const std::int64_t share = (outputs.size() + kRows - 1) / kRows;
  for (std::int64_t i = 0; i < share; ++i) {
    const bf16* rows[kRows];
    for (int s = 0; s < kRows; ++s) {
      rows[s] = w.half() + std::min(outputs.begin + s * share + i, outputs.end - 1) * w.cols;
    }
    for (int t = 0; t < tokens; ++t) {
      float sums[kRows];
      dot_rows<kAsk>(rows, x + t * x_stride, w.cols, sums);
      for (int s = 0; s < kRows; ++s) {
        const std::int64_t o = outputs.begin + s * share + i;
        if (o < outputs.end) put(o, t, sums[s]);
      }
    }
  }
}

/// The same, by the faster way on this processor.
template <class Put>
void dot_all(const WeightView& w, const bf16* x, std::int64_t x_stride, int tokens, Range outputs,
             const Put& put) {
  const simd::Prefetch by = simd::prefetch_by();
  if (!simd::is_by_processor(by)) {
    dot_side_by_side<true, 4>(w, x, x_stride, tokens, outputs, put);
  } else if (by == simd::Prefetch::by_processor_of_two && tokens == 1) {
    dot_side_by_side<false, 2>(w, x, x_stride, tokens, outputs, put);
  } else {
    dot_side_by_side<false, 4>(w, x, x_stride, tokens, outputs, put);
  }
}

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  if (w.type != WeightType::bf16) return simd::dense(w, bias, x, tokens, y, outputs, relu);
  const std::int64_t in = w.cols, out = w.rows;
  thread_local std::vector<bf16> rounded;
  rounded.resize(std::size_t(in * tokens));
  bf16_dot::round(x, in * tokens, rounded.data());
  for (std::int64_t i = 0; i < strip_count(w); ++i) {
    const WeightView part = strip(w, i);
    const bool is_first = i == 0, is_last = i + 1 == strip_count(w);
    dot_all(part, rounded.data() + i * kStrip, in, tokens, outputs,
            [&](std::int64_t o, int t, float sum) {
              float& to = y[t * out + o];
              if (!is_first) sum += to;
              if (is_first && bias) sum += bias[o];
              to = is_last && relu && sum < 0 ? 0.0f : sum;
            });
  }
}

}  // namespace

const KernelSet* bf16_dot_kernels() {
  if (!bf16_dot::is_supported()) return nullptr;
  static const KernelSet set = [] {
    KernelSet s = simd_kernels();
    s.name = "bf16_dot";
    s.description = std::string("bf16 dot product (vdpbf16ps") +
                    (bf16_dot::has_tiles() ? ", modular layers by tiles: tdpbf16ps" : "") +
                    "), rounds activations to bf16; the rest is simd's";
    s.own = {"dense", "multiplicative", "module_convolution"};
    s.own_types = {WeightType::bf16};
    s.rounds_activations = true;
    // Its rows are few and far apart by all ways. dense_transposed is simd's, for which strips of
    // bf16 have not been timed on processors that have these instructions.
    s.dense_bf16 = s.dense_f32;
    s.dense = dense;
    s.multiplicative = bf16_dot::multiplicative;
    s.module_convolution = bf16_dot::module_convolution;
    return s;
  }();
  return &set;
}
#else
const KernelSet* bf16_dot_kernels() { return nullptr; }
#endif

}  // namespace scaling
