// Attention among positions that lie near the same centroid: the Routing Transformer's, with
// centroids that follow what is routed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/attention.h"
#include "models/layers/attention/routing_head.h"
#include "models/layers/traits.h"

namespace scaling {

struct RoutingKnobs {
  std::int64_t routing_clusters = 8;
  std::int64_t routing_window = 0;
  double routing_decay = 0.999;      // the paper's
  double routing_commitment = 1e-4;  // the released code's

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("routing_clusters", k.routing_clusters, "centroids of a head of the routing attention",
          size);
    visit("routing_window", k.routing_window,
          "positions that each centroid of the routing attention takes; 0: its share of all", size);
    visit("routing_decay", k.routing_decay,
          "what a training step leaves of the routing attention's centroids; 1: they stay");
    visit("routing_commitment", k.routing_commitment,
          "weight of the routing attention's loss that draws items to their centroids");
  }
};

/// Self-attention only (Roy et al., Efficient Content-Based Sparse Attention with Routing
/// Transformers). A head's items are its queries and its keys, layer-normed without gain, or under
/// a causal mask what both are then: (q + k) / 2, layer-normed. Each of routing_clusters centroids
/// takes the routing_window queries and as many keys that lie nearest to it (0: length / clusters,
/// rounded up; never more than there are), and softmax attention runs among what one centroid has
/// taken, itself included, under a causal mask up to the query. A query that several centroids have
/// taken gets the mean of what it finds there, one that none has taken gets zeros and is counted
/// (uncovered()). Padding belongs to no cluster. All of its heads are routed: half of a layer's, as
/// in the paper, by sharing them with another attention.
///
/// Who belongs to a cluster depends on all positions, under a causal mask on later ones too: a
/// later item can take an earlier one's place. Their keys and values do not enter.
///
/// Centroids are no weights: they are running means (Parameter::mean_decay) of the items nearest to
/// them, kept as a sum and a count. Directions of sums decide what is near, since items are all of
/// one length; sum over count, counts smoothed, is what the commitment draws items to, a loss of
/// its own (Pass::extra_loss): routing_commitment times the mean over a position's heads, sides and
/// numbers of the squared distance. No gradient flows into either.
class RoutingAttention : public SelfAttention {
 public:
  using Options = RoutingKnobs;
  /// A step goes to the one nearest centroid of its item, forward to all that have taken it.
  static constexpr Traits kTraits{.step = StepIs::approximate, .shares_heads = true};
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  /// Parameters: sums (heads, clusters, d_head) and counts (heads, clusters). Without memory for
  /// them, of a layer on its own, they are what they start from.
  explicit RoutingAttention(const ModelConfig& config);

  /// What make_activations makes. chosen: of every example and head, RoutingSizes::decisions.
  struct Kept : Activations {
    std::vector<float> normalizers;  ///< (examples * heads, clusters, window)
    Mat directions, means;           ///< (heads * clusters, d_head)
    /// Of examples and heads: the commitment's loss, and queries without a cluster.
    std::vector<double> losses;
    std::vector<std::int64_t> uncovered;
    /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
    std::vector<RoutingHead> scratch;
  };

  void visit_parameters(const ParameterVisitor& visit) override;
  void take_heads(Range heads) override;
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  /// As many keys as queries.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  /// To the gradients of sums and counts it adds what they are means of.
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  /// Of every cluster the latest keys and values, as many as its window for a sequence of
  /// `capacity`, and the centroids as they are now.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  /// Approximate: the item joins the cluster whose centroid is nearest and attends to the latest of
  /// that cluster, itself included, the window of the cache's capacity at most. So every position
  /// is covered, once, and nobody loses a place to a later one. With one cluster and a window of
  /// everything it is forward.
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Clusters of equal size, and windows for a capacity of `length`.
  Cost step_cost(int tokens, std::int64_t length) const override;
  /// Exact but for padding: every cluster has as many members. A pair that two clusters hold is
  /// computed twice and counts twice.
  AttentionWork work(std::int64_t length, bool causal) const override;
  /// Of a sequence of max_length without a causal mask; under one keys need no lists of their own.
  double activation_floats() const override;
  double thread_floats(std::int64_t length) const override;

  RoutingSizes sizes_of(std::int64_t length, bool causal) const;
  /// Queries of the last forward that no cluster had taken, over all heads, without padding.
  std::int64_t uncovered(const Activations& kept) const;
  /// Positions of a cluster's queries and of its keys, both ascending; a causal mask comes after.
  using ClusterVisitor = std::function<void(std::span<const std::int32_t> queries,
                                            std::span<const std::int32_t> keys)>;
  /// The clusters of the last forward of pair = example * heads + head.
  void visit_clusters(const Activations& kept, std::int64_t pair, std::int64_t length, bool causal,
                      const ClusterVisitor& visit) const;

 private:
  struct Cache;

  RoutingAttention(const ModelConfig& config, const RoutingKnobs& knobs);
  void declare_centroids(double decay);
  std::int64_t window_of(std::int64_t length) const;
  void make_directions(Mat& directions) const;
  void make_means(Mat& means) const;
  void step_head(const StepContext& ctx, Cache& cache, std::int64_t unit, const float* q,
                 const float* k, const float* v, float* o) const;
  RoutingCall call_of(const Pass& pass, const AttentionMask& mask, Kept& kept, std::int64_t pair,
                      std::int64_t length) const;

  std::int64_t first_ = 0, heads_, all_heads_;  // of the layer's heads, the first of its own
  std::int64_t d_head_, max_length_, clusters_, window_;
  double commitment_;
  std::uint64_t seed_;
  Parameter sums_, counts_;
};

}  // namespace scaling
