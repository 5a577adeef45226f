// Counts of two classes, and sums of products.
#include "models/tasks/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/check.h"

namespace scaling {
namespace {

/// How often each truth is told as what, of classes 0 and 1.
struct Confusion {
  double hits = 0, misses = 0, false_alarms = 0, rejections = 0;
};

Confusion confusion_of(std::span<const std::size_t> truth, std::span<const std::size_t> told) {
  SCALING_CHECK(truth.size() == told.size());
  Confusion counts;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    SCALING_CHECK(truth[i] <= 1 && told[i] <= 1);
    if (truth[i] == 1) {
      ++(told[i] == 1 ? counts.hits : counts.misses);
    } else {
      ++(told[i] == 1 ? counts.false_alarms : counts.rejections);
    }
  }
  return counts;
}

/// From 1; equal values have the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    // Ranks first + 1 to end.
    const double mean = (double(first) + 1 + double(end)) / 2;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

}  // namespace

double share_right(std::span<const std::size_t> truth, std::span<const std::size_t> told) {
  SCALING_CHECK(truth.size() == told.size());
  if (truth.empty()) return 0;
  double right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) right += truth[i] == told[i] ? 1 : 0;
  return right / double(truth.size());
}

double f1_of_class_1(std::span<const std::size_t> truth, std::span<const std::size_t> told) {
  const Confusion c = confusion_of(truth, told);
  const double all = 2 * c.hits + c.false_alarms + c.misses;
  return all > 0 ? 2 * c.hits / all : 0;
}

double matthews_correlation(std::span<const std::size_t> truth, std::span<const std::size_t> told) {
  const Confusion c = confusion_of(truth, told);
  const double squared = (c.hits + c.misses) * (c.hits + c.false_alarms) *
                         (c.rejections + c.misses) * (c.rejections + c.false_alarms);
  if (squared == 0) return 0;
  return (c.hits * c.rejections - c.false_alarms * c.misses) / std::sqrt(squared);
}

double pearson_correlation(std::span<const double> truth, std::span<const double> told) {
  SCALING_CHECK(truth.size() == told.size());
  if (truth.empty()) return std::numeric_limits<double>::quiet_NaN();
  // The mean of equal numbers need not be that number, so constants are told by comparing.
  const auto is_constant = [](std::span<const double> values) {
    return std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
  };
  if (is_constant(truth) || is_constant(told)) return std::numeric_limits<double>::quiet_NaN();
  const double x = mean_of(truth), y = mean_of(told);
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    xx += (truth[i] - x) * (truth[i] - x);
    yy += (told[i] - y) * (told[i] - y);
    xy += (truth[i] - x) * (told[i] - y);
  }
  return xy / std::sqrt(xx) / std::sqrt(yy);
}

double spearman_correlation(std::span<const double> truth, std::span<const double> told) {
  return pearson_correlation(ranks_of(truth), ranks_of(told));
}

}  // namespace scaling
