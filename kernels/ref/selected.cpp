// Definition of the sparse feed-forward's kernels: choose a neuron per block, compute only the
// chosen.
#include <algorithm>

#include "kernels/ref/ref.h"

namespace scaling::ref {

void controller(const WeightView& w, const float* bias, const float* hidden, int tokens,
                std::int64_t block, float* logits, std::int32_t* selected, Range blocks) {
  const std::int64_t rank = w.rows;
  const std::int64_t block_count = w.cols / block;
  for (int t = 0; t < tokens; ++t) {
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      double best = 0;
      for (std::int64_t y = 0; y < block; ++y) {
        const std::int64_t j = b * block + y;
        double z = double(bias[j]);
        for (std::int64_t l = 0; l < rank; ++l) {
          z += double(hidden[t * rank + l]) * double(element(w, l, j));
        }
        logits[j] = float(z);
        if (y == 0 || z > best) {
          best = z;
          selected[t * block_count + b] = std::int32_t(y);
        }
      }
    }
  }
}

void gather_dot(const WeightView& w, const float* bias, const Selection* s, std::int64_t n,
                const float* x, float* h) {
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = bias ? double(bias[s[i].row]) : 0.0;
    for (std::int64_t c = 0; c < w.cols; ++c) {
      sum += double(element(w, s[i].row, c)) * double(x[s[i].token * w.cols + c]);
    }
    h[i] = sum < 0 ? 0.0f : float(sum);
  }
}

void gather_accumulate(const WeightView& w, const Selection* s, std::int64_t n, const float* h,
                       float* y) {
  std::int32_t tokens = 0;
  for (std::int64_t i = 0; i < n; ++i) tokens = std::max(tokens, s[i].token + 1);
  for (std::int32_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 0; c < w.cols; ++c) {
      double sum = double(y[t * w.cols + c]);
      for (std::int64_t i = 0; i < n; ++i) {
        if (s[i].token == t) sum += double(h[i]) * double(element(w, s[i].row, c));
      }
      y[t * w.cols + c] = float(sum);
    }
  }
}

}  // namespace scaling::ref
