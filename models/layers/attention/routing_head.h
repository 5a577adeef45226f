// Routing attention of one head of one example: choosing clusters, attention among their members,
// and both halves of a pass. One thread's work, on contiguous copies.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/attention/routing_clusters.h"
#include "models/pass.h"

namespace scaling {

/// Rows of one example and columns of one head in a matrix of all.
using RoutingRows = Eigen::Ref<const Mat, 0, Eigen::OuterStride<>>;

/// What forward and backward of a head must agree on.
struct RoutingCall {
  const Pass& pass;
  std::uint64_t stream = 0;            ///< of dropout
  std::int64_t index = 0;              ///< example * heads + head: its draws of the stream
  RoutingSizes sizes;                  ///< shared queries and keys are those of a causal mask
  const std::uint8_t* seen = nullptr;  ///< (length), 0: padding; null: there is none
  const float* directions = nullptr;   ///< (clusters, d): of length 1
  const float* means = nullptr;        ///< (clusters, d): what items are drawn to
  double commitment = 0;               ///< weight of an item's squared distance to its mean
  std::int32_t* decisions = nullptr;   ///< see RoutingSizes
  float* normalizers = nullptr;        ///< (clusters, window): log of a query's sum of exp(logit)
};

/// The buffers of one head after another.
class RoutingHead {
 public:
  /// What a forward and its backward need of them.
  static double floats(const RoutingSizes& sizes, std::int64_t d_head);
  /// Layer-normed queries and keys, or where they are shared of (q + k) / 2. All (length, d_head).
  void load(const RoutingCall& call, const RoutingRows& q, const RoutingRows& k);
  /// Fills call.decisions.
  void choose(const RoutingCall& call);
  /// Weighted sum of the squared distances of what was loaded to the means of the nearest clusters.
  double distance_loss(const RoutingCall& call) const;
  /// o() of what was loaded, and call.normalizers.
  void forward(const RoutingCall& call, const RoutingRows& v);
  /// dq(), dk() and dv(), of the distances' loss times pass.loss_scale too.
  void backward(const RoutingCall& call, const RoutingRows& v, const RoutingRows& dout);
  /// Adds to each cluster the number (clusters) and the sum (clusters, d) of the items that it is
  /// nearest to.
  void add_statistics(const RoutingCall& call, float* counts, float* sums) const;

  /// Queries that no cluster has taken, without padding.
  std::int64_t uncovered(const RoutingCall& call) const;
  const Mat& o() const { return o_; }
  const Mat& dq() const { return sides_[0].gradient; }
  /// Where they are shared, dq() itself.
  const Mat& dk(const RoutingCall& call) const { return key_side(call).gradient; }
  const Mat& dv() const { return dv_; }

 private:
  struct Side {
    Mat items, gradient;          // (length, d_head)
    std::vector<float> inverses;  // (length): one over the deviation
  };
  /// Some queries of a cluster that go through together, and how many keys the last of them sees.
  struct Group {
    std::int64_t cluster, first, size, keys;
  };

  const Side& key_side(const RoutingCall& call) const {
    return sides_[std::size_t(call.sizes.sides() - 1)];
  }
  Side& key_side(const RoutingCall& call) { return sides_[std::size_t(call.sizes.sides() - 1)]; }
  std::span<const std::int32_t> members(const RoutingCall& call, std::int64_t side,
                                        std::int64_t cluster) const;
  void size(const RoutingCall& call, bool for_backward);
  void count_covers(const RoutingCall& call);
  void gather(const RoutingCall& call, std::int64_t cluster, const RoutingRows& v);
  Group group_of(const RoutingCall& call, std::int64_t cluster, std::int64_t first) const;
  std::int64_t sight(const RoutingCall& call, const Group& group, std::int64_t row) const;
  float share_of_cluster(std::int64_t position) const {
    return 1 / float(covers_[std::size_t(position)]);
  }
  void score(const RoutingCall& call, const Group& group);
  void drop_row(const RoutingCall& call, const Group& group, std::int64_t row, float* values) const;
  void softmax(const RoutingCall& call, const Group& group);
  void softmax_backward(const RoutingCall& call, const Group& group);
  void group_backward(const RoutingCall& call, const Group& group, const RoutingRows& dout);
  void add_distance_gradient(const RoutingCall& call);
  void backward_of_norms(const RoutingCall& call);

  RoutingClusters clusters_;
  std::array<Side, 2> sides_;
  Mat o_, dv_;                        // (length, d_head)
  std::vector<std::int32_t> covers_;  // (length): clusters that have taken a query
  // The cluster at hand.
  std::span<const std::int32_t> query_positions_, key_positions_;
  Mat queries_, keys_, values_, dkeys_, dvalues_;  // (window, d_head)
  Mat outputs_, dqueries_;                         // (queries at once, d_head)
  Mat scores_, gradient_;                          // (queries at once, window)
};

}  // namespace scaling
