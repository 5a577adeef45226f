// A few centroids at a time, so that no buffer holds a number for each item and centroid.
#include "models/layers/attention/routing_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scaling {
namespace {

constexpr std::int64_t kClustersAtOnce = 16;
/// What a score that is not a number counts as: sorting needs an order.
constexpr float kLowest = std::numeric_limits<float>::lowest();

}  // namespace

float normalise_item(float* x, std::int64_t d) {
  Eigen::Map<Eigen::ArrayXf> values(x, d);
  values -= values.mean();
  const float inverse = 1 / std::sqrt(values.square().mean() + kRoutingEpsilon);
  values *= inverse;
  return inverse;
}

std::int64_t nearest_cluster(const float* directions, std::int64_t clusters, const float* item,
                             std::int64_t d) {
  const Eigen::Map<const Eigen::VectorXf> own(item, d);
  std::int64_t nearest = 0;
  float largest = kLowest;
  for (std::int64_t c = 0; c < clusters; ++c) {
    const float score = Eigen::Map<const Eigen::VectorXf>(directions + c * d, d).dot(own);
    if (!(score > largest)) continue;
    largest = score;
    nearest = c;
  }
  return nearest;
}

double RoutingClusters::floats(const RoutingSizes& sizes) {
  // Of each position its products with some directions, the largest, and two places in order.
  return double(sizes.length) * double(std::min(kClustersAtOnce, sizes.clusters) + 3);
}

void RoutingClusters::choose(const Gemm& gemm, const RoutingSizes& sizes, const Mat& items,
                             const float* directions, const std::uint8_t* seen,
                             std::int32_t* members, std::int32_t* nearest) {
  const std::int64_t length = sizes.length, d = items.cols();
  seen_.clear();
  seen_.reserve(std::size_t(length));
  for (std::int64_t t = 0; t < length; ++t) {
    if (!seen || seen[t]) seen_.push_back(std::int32_t(t));
  }
  std::fill_n(nearest, length, -1);
  largest_.assign(std::size_t(length), -std::numeric_limits<float>::infinity());
  scores_.resize(std::min(kClustersAtOnce, sizes.clusters), length);
  const std::int64_t taken = std::min(sizes.window, std::int64_t(seen_.size()));
  for (std::int64_t first = 0; first < sizes.clusters; first += kClustersAtOnce) {
    const std::int64_t n = std::min(kClustersAtOnce, sizes.clusters - first);
    gemm.product(false, true, n, length, d, directions + first * d, d, items.data(), d, 0,
                 scores_.data(), length);
    for (std::int64_t c = 0; c < n; ++c) {
      float* scores = scores_.row(c).data();
      for (const std::int32_t t : seen_) {
        if (!(scores[t] > kLowest)) scores[t] = kLowest;
        if (!(scores[t] > largest_[std::size_t(t)])) continue;
        largest_[std::size_t(t)] = scores[t];
        nearest[t] = std::int32_t(first + c);
      }
      order_ = seen_;
      const auto end = order_.begin() + std::ptrdiff_t(taken);
      if (end != order_.end()) {
        std::nth_element(order_.begin(), end, order_.end(),
                         [scores](std::int32_t a, std::int32_t b) {
                           return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
                         });
      }
      std::sort(order_.begin(), end);
      std::int32_t* own = members + (first + c) * sizes.window;
      std::fill(std::copy(order_.begin(), end, own), own + sizes.window, -1);
    }
  }
}

}  // namespace scaling
