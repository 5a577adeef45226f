// The best quality at each sparsity, as a step function, and how much of it is chance of the
// sequences that were looked at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/matrix.h"

namespace scaling {

/// One configuration of a method.
struct SparsePoint {
  double sparsity = 0, quality = 0;
};

/// F(s) = the best quality among points of a sparsity of at least s. Between two configurations
/// there is none, so nothing is interpolated.
class Frontier {
 public:
  explicit Frontier(std::vector<SparsePoint> points);
  /// 0 where no point is that sparse: then nothing is found.
  double at(double sparsity) const;
  /// Integral of F over [low, high], divided by its length.
  double area(double low, double high) const;
  /// Points that no other is at least as good as in both and better in one, sparsest first.
  const std::vector<SparsePoint>& points() const { return points_; }

 private:
  std::vector<SparsePoint> points_;
};

/// How often each of n things is drawn in each of `draws` draws of n with replacement, over n:
/// (draws, n), rows of sum 1. A number's mean over things in each draw is a product with a column.
/// The same seed gives the same draws, so that two methods can be compared in pairs.
Mat resampled_shares(std::int64_t draws, std::int64_t n, std::uint64_t seed);

/// Ends of the middle 95 % of values.
struct Interval {
  double low = 0, high = 0;
};
Interval middle_95(std::vector<double> values);

}  // namespace scaling
