// Quantiles and the distribution-free interval of the median.
#include "experiments/study/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.h"

namespace scaling {
namespace {

/// P(X = k) for X ~ Binomial(n, 1/2), by logarithms so that large n do not underflow.
double half_binomial(int n, int k) {
  return std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) -
                  n * std::log(2.0));
}

}  // namespace

double quantile(std::vector<double> values, double p) {
  SCALING_CHECK(!values.empty() && p >= 0 && p <= 1);
  std::sort(values.begin(), values.end());
  const double at = p * double(values.size() - 1);
  const auto below = std::size_t(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - double(below)) * (values[above] - values[below]);
}

Summary summarize(const std::vector<double>& values) {
  Summary s;
  if (values.empty()) return s;
  s.median = quantile(values, 0.5);
  s.low = quantile(values, 0.25);
  s.high = quantile(values, 0.75);
  s.spread = (s.high - s.low) / 2;
  s.repeats = int(values.size());
  return s;
}

MedianInterval median_interval(std::vector<double> values, double wanted) {
  SCALING_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const int n = int(values.size());
  // The interval between the l-th smallest and largest misses the median with 2 P(X < l).
  int l = 1;
  double outside = half_binomial(n, 0);
  while (2 * (l + 1) <= n && 1 - 2 * (outside + half_binomial(n, l)) >= wanted) {
    outside += half_binomial(n, l++);
  }
  return {values[std::size_t(l - 1)], values[std::size_t(n - l)], 1 - 2 * outside};
}

double relative_uncertainty(const std::vector<double>& values) {
  if (values.empty()) return std::numeric_limits<double>::infinity();
  const MedianInterval interval = median_interval(values);
  if (interval.coverage < 0.95) return std::numeric_limits<double>::infinity();
  const double median = quantile(values, 0.5);
  return std::max(median - interval.low, interval.high - median) / median;
}

}  // namespace scaling
