// From a row of logits to probabilities of which most are exactly zero: sparsemax and 1.5-entmax.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace scaling {

/// alpha-entmax ("Sparse Sequence-to-Sequence Models"): p = [(alpha - 1) z - tau]+ ^ (1 / (alpha -
/// 1)), tau such that a row's sum is 1. Once tau is known, each p depends on its own logit alone.
/// Logits z are taken less the row's largest, so they are at most 0.
///
/// Softmax is alpha's limit at 1, and no such normaliser: it has no threshold, none of its p is
/// zero, and sums made before a larger logit came can be rescaled, so it needs one pass where these
/// need two.
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

/// softmax, sparsemax, entmax15.
const std::vector<std::string>& normaliser_names();
/// Null for softmax; throws UserError listing the known for another name.
std::unique_ptr<ThresholdNormaliser> make_normaliser(const std::string& name);

}  // namespace scaling
