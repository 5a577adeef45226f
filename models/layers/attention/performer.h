// Attention by random features, FAVOR+: its cost is linear in length, and no pair is ever scored.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "models/attention.h"
#include "models/layers/attention/performer_head.h"
#include "models/layers/attention/random_features.h"
#include "models/layers/traits.h"

namespace scaling {

/// When training draws directions: in each forward, or never, so that they are evaluation's.
enum class FeatureRedraw { each_step, never };
constexpr std::array<const char*, 2> names_of(FeatureRedraw) { return {"each_step", "never"}; }

struct PerformerKnobs {
  std::int64_t performer_features = 256;
  FeatureDirections performer_directions = FeatureDirections::orthogonal;
  FeatureRedraw performer_redraw = FeatureRedraw::each_step;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("performer_features", k.performer_features,
          "random features of a head of the performer attention", Trait{.is_size = true});
    visit("performer_directions", k.performer_directions,
          "how the performer attention draws features: orthogonal, regularised or independent");
    visit("performer_redraw", k.performer_redraw,
          "when the performer attention draws features anew in training: each_step or never");
  }
};

/// Self-attention only. With m positive random features f of a head, of queries and keys divided by
/// the fourth root of d_head, o = sum of (f(q) . f(k)) v over the keys, divided by the sum of f(q)
/// . f(k): softmax attention in the limit of many features. Features of keys and values are added
/// up first, so time and memory are linear in length; under a causal mask these sums run along, and
/// decoding keeps nothing else. Padding is never seen; a query that sees no key gets zeros.
///
/// Directions of features depend on seed and head; in training, unless performer_redraw is never,
/// on the pass too, so that a training step draws its own. All examples of a batch share them.
/// There are no probabilities that could be dropped: the pass's dropout changes nothing here.
class PerformerAttention : public SelfAttention {
 public:
  using Options = PerformerKnobs;
  static constexpr Traits kTraits{.has_graph = false, .shares_heads = true};
  /// Throws UserError if there are no features.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit PerformerAttention(const ModelConfig& config);
  void take_heads(Range heads) override;
  int drawn_streams() const override { return 2; }

  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  /// The sums over earlier positions, whatever the capacity, and the directions of features: those
  /// of forward in evaluation.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// The same at every length. Bytes: directions are read once, sums are read and written.
  Cost step_cost(int tokens, std::int64_t length) const override;
  /// No pairs: FLOP as they are defined, position after position. Under a causal mask positions of
  /// a chunk meet each other, which is not counted, and later of them are masked.
  AttentionWork work(std::int64_t length, bool causal) const override;
  /// The result, of each head the largest exponent and one over the sum of weights, and under a
  /// causal mask the maxima of each chunk's features, if no chunk has to end early.
  double activation_floats() const override;
  double thread_floats(std::int64_t length) const override;

  /// w of its heads in evaluation, (heads * features, d_head).
  Mat fixed_directions() const;

 private:
  struct Kept;
  struct Cache;

  /// Streams of directions in evaluation; passes count theirs from 0.
  static constexpr std::uint64_t kFixedDirections = 0x6661766f722b0000;

  void draw(const Pass& pass, Kept& kept) const;
  void step_head(Cache& cache, std::int64_t unit, const float* q, const float* k, const float* v,
                 float* o) const;
  /// fn(call, rows, own rows, scratch) for all of its heads of all examples, where rows(mat) are
  /// the head's of a matrix of the layer, own rows(mat) of one of its heads alone.
  template <class Fn>
  void for_heads(const Pass& pass, const AttentionMask& mask, Kept& kept, std::int64_t length,
                 Fn&& fn) const;

  std::int64_t first_ = 0, heads_, all_heads_;  // of the layer's heads, the first of its own
  std::int64_t d_head_, features_;
  FeatureDirections kind_;
  bool redraws_;
  std::uint64_t seed_;
};

}  // namespace scaling
