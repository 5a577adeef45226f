// Definition of what looks at one row of activations: layer norm, softmax, argmax.
#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace scaling::ref {

void layer_norm(const float* x, const float* scale, const float* bias, int tokens, std::int64_t d,
                float* y) {
  for (int t = 0; t < tokens; ++t) {
    const float* row = x + t * d;
    double mean = 0;
    for (std::int64_t i = 0; i < d; ++i) mean += double(row[i]) / double(d);
    double variance = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      variance += (double(row[i]) - mean) * (double(row[i]) - mean) / double(d);
    }
    const double inverse = 1.0 / std::sqrt(variance + 1e-6);
    for (std::int64_t i = 0; i < d; ++i) {
      y[t * d + i] = float(double(scale[i]) * (double(row[i]) - mean) * inverse + double(bias[i]));
    }
  }
}

void softmax(float* x, std::int64_t n) {
  const double largest = double(*std::max_element(x, x + n));
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(double(x[i]) - largest);
  for (std::int64_t i = 0; i < n; ++i) x[i] = float(std::exp(double(x[i]) - largest) / sum);
}

std::int64_t argmax(const float* x, std::int64_t n) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    if (x[i] > x[best]) best = i;
  }
  return best;
}

}  // namespace scaling::ref
