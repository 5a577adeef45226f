// From a row of logits to probabilities of which most are exactly zero: alpha-entmax, of which
// sparsemax is one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "kernels/entmax.h"

namespace scaling {

enum class Normaliser { softmax, sparsemax, entmax15, entmax };
constexpr std::array<const char*, 4> names_of(Normaliser) {
  return {"softmax", "sparsemax", "entmax15", "entmax"};
}

/// alpha-entmax as kernels/entmax.h has it: once a row's threshold is known, each p depends on its
/// own logit alone. Logits z are taken less the row's largest, so they are at most 0.
///
/// Softmax is its limit as alpha goes to 1, and no such normaliser: it has no threshold, none of
/// its p is zero, and sums made before a larger logit came can be rescaled, so it needs one pass
/// where these need two.
class ThresholdNormaliser {
 public:
  explicit ThresholdNormaliser(double alpha) : alpha_(alpha) {}
  double alpha() const { return alpha_; }
  /// Logits lower than this are certain to get 0.
  float lowest() const { return entmax_lowest(alpha_); }
  /// Of a row; logits below lowest() may be left out. z is not kept.
  float threshold(float* z, std::int64_t n) const { return entmax_threshold(alpha_, z, n); }
  /// z becomes p.
  void apply(float threshold, float* z, std::int64_t n) const {
    entmax_probabilities(alpha_, threshold, z, n);
  }
  /// s = p^(2 - alpha) where p > 0, else 0: with g the gradient of p, that of z is s g - s (sum of
  /// s g) / (sum of s).
  void slopes(const float* p, float* s, std::int64_t n) const { entmax_slopes(alpha_, p, s, n); }

 private:
  double alpha_;
};

/// Null for softmax. entmax_alpha: of entmax alone; throws UserError if that is not above 1.
std::unique_ptr<ThresholdNormaliser> make_normaliser(Normaliser kind, double entmax_alpha);

}  // namespace scaling
