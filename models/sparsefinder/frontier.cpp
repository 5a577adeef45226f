// Sorting, steps and draws with replacement.
#include "models/sparsefinder/frontier.h"

#include <algorithm>
#include <iterator>

#include "kernels/check.h"
#include "kernels/random.h"

namespace scaling {
namespace {

constexpr std::uint64_t kResamples = 0x626f6f74;  // stream of the draws

double quantile_of_sorted(const std::vector<double>& sorted, double p) {
  const double place = p * double(sorted.size() - 1);
  const auto below = std::size_t(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - double(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Frontier::Frontier(std::vector<SparsePoint> points) {
  std::sort(points.begin(), points.end(), [](const SparsePoint& a, const SparsePoint& b) {
    return a.sparsity > b.sparsity || (a.sparsity == b.sparsity && a.quality > b.quality);
  });
  for (const SparsePoint& point : points) {
    if (points_.empty() || point.quality > points_.back().quality) points_.push_back(point);
  }
}

double Frontier::at(double sparsity) const {
  // Sparsest first: the last that is sparse enough is the best of them.
  const auto end = std::partition_point(
      points_.begin(), points_.end(),
      [sparsity](const SparsePoint& point) { return point.sparsity >= sparsity; });
  return end == points_.begin() ? 0 : std::prev(end)->quality;
}

double Frontier::area(double low, double high) const {
  SCALING_CHECK(low < high);
  double sum = 0, above = high;  // what lies above is summed
  for (std::size_t i = 0; i <= points_.size() && above > low; ++i) {
    const double step = i < points_.size() ? std::clamp(points_[i].sparsity, low, above) : low;
    sum += (above - step) * (i == 0 ? 0 : points_[i - 1].quality);
    above = step;
  }
  return sum / (high - low);
}

Mat resampled_shares(std::int64_t draws, std::int64_t n, std::uint64_t seed) {
  SCALING_CHECK(draws > 0 && n > 0);
  Mat shares = Mat::Zero(draws, n);
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    Rng random(seed, kResamples + std::uint64_t(draw));
    for (std::int64_t i = 0; i < n; ++i) {
      shares(draw, std::int64_t(random.below(std::uint32_t(n)))) += 1 / float(n);
    }
  }
  return shares;
}

Interval middle_95(std::vector<double> values) {
  SCALING_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return {quantile_of_sorted(values, 0.025), quantile_of_sorted(values, 0.975)};
}

}  // namespace scaling
