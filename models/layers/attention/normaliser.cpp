// Thresholds by sorting: of the rows' logits few are ever candidates.
#include "models/layers/attention/normaliser.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/check.h"

namespace scaling {
namespace {

/// alpha = 2: the Euclidean projection onto the simplex.
class Sparsemax : public ThresholdNormaliser {
 public:
  float lowest() const override { return -1; }
  float threshold(float* z, std::int64_t n) const override {
    std::sort(z, z + n, std::greater<>());
    double sum = 0, tau = 0;
    for (std::int64_t k = 1; k <= n; ++k) {
      sum += double(z[k - 1]);
      if (1 + double(k) * double(z[k - 1]) <= sum) break;
      tau = (sum - 1) / double(k);
    }
    return float(tau);
  }
  void apply(float threshold, float* z, std::int64_t n) const override {
    for (std::int64_t i = 0; i < n; ++i) z[i] = std::max(z[i] - threshold, 0.0f);
  }
  void slopes(const float* p, float* s, std::int64_t n) const override {
    for (std::int64_t i = 0; i < n; ++i) s[i] = p[i] > 0 ? 1.0f : 0.0f;
  }
};

class Entmax15 : public ThresholdNormaliser {
 public:
  float lowest() const override { return -2; }
  float threshold(float* z, std::int64_t n) const override {
    std::sort(z, z + n, std::greater<>());
    double sum = 0, squares = 0, tau = 0;
    for (std::int64_t k = 1; k <= n; ++k) {
      const double x = double(z[k - 1]) / 2;
      sum += x;
      squares += x * x;
      // The smaller root of: the sum of (x - tau)^2 over the first k is 1.
      const double mean = sum / double(k), spread = squares - sum * mean;
      const double root = mean - std::sqrt(std::max((1 - spread) / double(k), 0.0));
      if (root > x) break;
      tau = root;
    }
    return float(tau);
  }
  void apply(float threshold, float* z, std::int64_t n) const override {
    for (std::int64_t i = 0; i < n; ++i) {
      const float above = std::max(z[i] * 0.5f - threshold, 0.0f);
      z[i] = above * above;
    }
  }
  void slopes(const float* p, float* s, std::int64_t n) const override {
    for (std::int64_t i = 0; i < n; ++i) s[i] = std::sqrt(p[i]);
  }
};

}  // namespace

std::unique_ptr<ThresholdNormaliser> make_normaliser(Normaliser kind) {
  switch (kind) {
    case Normaliser::softmax:
      return nullptr;
    case Normaliser::sparsemax:
      return std::make_unique<Sparsemax>();
    case Normaliser::entmax15:
      return std::make_unique<Entmax15>();
  }
  SCALING_CHECK(false);
}

}  // namespace scaling
