// Definition of the dense products.
#include <vector>

#include "kernels/ref/ref.h"

namespace scaling::ref {

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  for (int t = 0; t < tokens; ++t) {
    for (std::int64_t o = outputs.begin; o < outputs.end; ++o) {
      double sum = bias ? double(bias[o]) : 0.0;
      for (std::int64_t i = 0; i < w.cols; ++i) {
        sum += double(element(w, o, i)) * double(x[t * w.cols + i]);
      }
      y[t * w.rows + o] = relu && sum < 0 ? 0.0f : float(sum);
    }
  }
}

void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  for (int t = 0; t < tokens; ++t) {
    float* row = y + t * w.cols;
    // All sums of a token side by side: column by column, large weights would take minutes to read.
    std::vector<double> sums(row, row + w.cols);
    for (std::int64_t j = inputs.begin; j < inputs.end; ++j) {
      for (std::int64_t c = 0; c < w.cols; ++c) {
        sums[std::size_t(c)] += double(h[t * w.rows + j]) * double(element(w, j, c));
      }
    }
    for (std::int64_t c = 0; c < w.cols; ++c) row[c] = float(sums[std::size_t(c)]);
  }
}

}  // namespace scaling::ref
