// Order statistics of a handful of timings: nothing is assumed about their distribution.
#pragma once

#include <vector>

namespace scaling {

/// Quantile p in [0, 1] by linear interpolation between order statistics. values is not empty.
double quantile(std::vector<double> values, double p);

/// What a record says about repeated values. All zero if there are none.
struct Summary {
  double median = 0;
  double low = 0;     ///< first quartile
  double high = 0;    ///< third quartile
  double spread = 0;  ///< half the interquartile range
  int repeats = 0;
};
Summary summarize(const std::vector<double>& values);

/// Between the l-th smallest and the l-th largest value, l the largest for which a binomial count
/// gives the wanted coverage of the true median. With too few values (five or fewer for 95 %) it is
/// the whole range and `coverage` stays below the wanted one.
struct MedianInterval {
  double low = 0;
  double high = 0;
  double coverage = 0;
};
MedianInterval median_interval(std::vector<double> values, double wanted = 0.95);

/// The larger distance of the 95 % interval's ends from the median, as a share of it; infinite
/// where there are too few values for the coverage.
double relative_uncertainty(const std::vector<double>& values);

}  // namespace scaling
