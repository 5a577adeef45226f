// Who belongs to which cluster of the routing attention: each centroid takes the items that lie
// nearest to it, of every centroid as many.
#pragma once

#include <cstdint>
#include <vector>

#include "models/pass.h"

namespace scaling {

/// Added to the variance of a layer-normed item.
inline constexpr float kRoutingEpsilon = 1e-6f;

/// Sizes of one head of one example, and where its decisions are: of each side (queries and keys,
/// or both in one) the members of every cluster, then the nearest cluster of every item.
struct RoutingSizes {
  std::int64_t length = 0, clusters = 0;
  std::int64_t window = 0;  ///< members of a cluster, at most `length`
  bool is_shared = false;   ///< queries are keys

  std::int64_t sides() const { return is_shared ? 1 : 2; }
  /// Places for members of one side.
  std::int64_t places() const { return clusters * window; }
  std::int64_t decisions() const { return sides() * (places() + length); }
  /// Positions, ascending; -1 behind the last where there are fewer than the window.
  std::int64_t members_at(std::int64_t side, std::int64_t cluster) const {
    return side * (places() + length) + cluster * window;
  }
  /// (length): -1 for padding.
  std::int64_t nearest_at(std::int64_t side) const { return side * (places() + length) + places(); }
};

/// x: d numbers, to mean 0 and variance 1; returns what was multiplied with.
float normalise_item(float* x, std::int64_t d);
/// The index of the direction, of `clusters` (clusters, d), with the largest product; ties to the
/// lowest.
std::int64_t nearest_cluster(const float* directions, std::int64_t clusters, const float* item,
                             std::int64_t d);

/// Buffers of a choice, linear in length.
class RoutingClusters {
 public:
  static double floats(const RoutingSizes& sizes);
  /// Fills one side of a head's decisions. items: (length, d); directions: (clusters, d), of equal
  /// lengths, so that the nearest of them has the largest product. seen: (length), 0: padding,
  /// which belongs nowhere; null: there is none. Of equally near items earlier ones go first.
  void choose(const Gemm& gemm, const RoutingSizes& sizes, const Mat& items,
              const float* directions, const std::uint8_t* seen, std::int32_t* members,
              std::int32_t* nearest);

 private:
  Mat scores_;  // (clusters at once, length)
  std::vector<float> largest_;
  std::vector<std::int32_t> seen_, order_;
};

}  // namespace scaling
