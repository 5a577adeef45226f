// From a row of logits to probabilities of which most are exactly zero: sparsemax and 1.5-entmax.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace scaling {

enum class Normaliser { softmax, sparsemax, entmax15 };
constexpr std::array<const char*, 3> names_of(Normaliser) {
  return {"softmax", "sparsemax", "entmax15"};
}

/// alpha-entmax ("Sparse Sequence-to-Sequence Models"): p = [(alpha - 1) z - tau]+ ^ (1 / (alpha -
/// 1)), tau such that a row's sum is 1. Once tau is known, each p depends on its own logit alone.
/// Logits z are taken less the row's largest, so they are at most 0.
///
/// Softmax is its limit as alpha goes to 1, and no such normaliser: it has no threshold, none of
/// its p is zero, and sums made before a larger logit came can be rescaled, so it needs one pass
/// where these need two.
class ThresholdNormaliser {
 public:
  virtual ~ThresholdNormaliser() = default;
  /// Logits lower than this are certain to get 0: tau is at least -1, since no p exceeds 1.
  virtual float lowest() const = 0;
  /// tau of a row, exactly: by the sorted logits that are at least lowest(). Sorts z.
  virtual float threshold(float* z, std::int64_t n) const = 0;
  /// z becomes p.
  virtual void apply(float threshold, float* z, std::int64_t n) const = 0;
  /// s = p^(2 - alpha) where p > 0, else 0: with g the gradient of p, that of z is s g - s (sum of
  /// s g) / (sum of s).
  virtual void slopes(const float* p, float* s, std::int64_t n) const = 0;
};

/// Null for softmax.
std::unique_ptr<ThresholdNormaliser> make_normaliser(Normaliser kind);

}  // namespace scaling
