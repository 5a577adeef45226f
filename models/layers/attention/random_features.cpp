// Gram and Schmidt's process on normally distributed rows, where they lie.
#include "models/layers/attention/random_features.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/layers/parts/normals.h"

namespace scaling {
namespace {

double dot(const float* a, const float* b, std::int64_t d) {
  return std::inner_product(
      a, a + d, b, 0.0, [](double sum, double term) { return sum + term; },
      [](float x, float y) { return double(x) * double(y); });
}

/// The i-th of some rows to length one at right angles to those before it, which are so already.
void orthonormalise(float* rows, std::int64_t i, std::int64_t d) {
  float* row = rows + i * d;
  // What rounding leaves of the others is taken away the second time.
  for (int time = 0; time < 2; ++time) {
    for (std::int64_t before = 0; before < i; ++before) {
      const float* other = rows + before * d;
      const auto along = float(dot(row, other, d));
      for (std::int64_t c = 0; c < d; ++c) row[c] -= along * other[c];
    }
    const auto inverse = float(1 / std::sqrt(dot(row, row, d)));
    for (std::int64_t c = 0; c < d; ++c) row[c] *= inverse;
  }
}

/// Of the index-th d normally distributed numbers of a stream.
float length_of_normals(std::uint64_t seed, std::uint64_t stream, std::int64_t index,
                        std::int64_t d) {
  const std::int64_t fours = (d + 3) / 4;
  double squares = 0;
  for (std::int64_t i = 0; i < fours; ++i) {
    std::array<float, 4> values{};
    draw_normals(seed, stream, index * fours + i, std::min<std::int64_t>(4, d - 4 * i),
                 values.data());
    squares += dot(values.data(), values.data(), 4);
  }
  return float(std::sqrt(squares));
}

}  // namespace

void draw_directions(FeatureDirections kind, std::uint64_t seed, std::uint64_t stream,
                     std::int64_t index, std::int64_t m, std::int64_t d, float* w) {
  draw_normals(seed, stream, index, m * d, w);
  if (kind == FeatureDirections::independent) return;
  for (std::int64_t first = 0; first < m; first += d) {
    const std::int64_t n = std::min(d, m - first);
    float* block = w + first * d;
    for (std::int64_t i = 0; i < n; ++i) orthonormalise(block, i, d);
    for (std::int64_t i = 0; i < n; ++i) {
      const float length = kind == FeatureDirections::regularised
                               ? std::sqrt(float(d))
                               : length_of_normals(seed, stream + 1, index * m + first + i, d);
      for (std::int64_t c = 0; c < d; ++c) block[i * d + c] *= length;
    }
  }
}

}  // namespace scaling
