// Attention of a model's own queries to the keys that a cheap prediction leaves: Sparsefinder's, to
// be had before any score ("Predicting Attention Sparsity in Transformers", section 4).
#pragma once

#include <memory>

#include "models/layers/attention/pattern_attention.h"
#include "models/layers/attention/sparsefinder_pairs.h"

namespace scaling {

/// Knobs of all three predictions.
struct SparsefinderKnobs : PatternKnobs {
  std::int64_t sparsefinder_rank = 4;
  std::int64_t sparsefinder_window = 1;
  std::int64_t sparsefinder_global = 0;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("sparsefinder_rank", k.sparsefinder_rank,
          "dimensions in which sparsefinder attentions predict who meets whom", size);
    visit("sparsefinder_window", k.sparsefinder_window,
          "positions that sparsefinder attentions add to what is predicted, an odd number: half "
          "before, half after; 0: none",
          size);
    visit("sparsefinder_global", k.sparsefinder_global,
          "first positions that meet everyone in sparsefinder attentions", size);
    PatternKnobs::fields(k, visit);
  }
};

struct SparsefinderDistanceKnobs : SparsefinderKnobs {
  double sparsefinder_density = 0.1;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("sparsefinder_density", k.sparsefinder_density,
          "share of the pairs of normal queries and keys that sparsefinder_distance's thresholds "
          "let meet at first; 1: all");
    SparsefinderKnobs::fields(k, visit);
  }
};

struct SparsefinderClusterKnobs : SparsefinderKnobs {
  std::int64_t sparsefinder_clusters = 8;
  std::int64_t sparsefinder_nearest = 1;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("sparsefinder_clusters", k.sparsefinder_clusters, "centroids of sparsefinder_kmeans",
          size);
    visit("sparsefinder_nearest", k.sparsefinder_nearest,
          "of a position's centroids in sparsefinder_kmeans so many, the nearest, are its own",
          size);
    SparsefinderKnobs::fields(k, visit);
  }
};

struct SparsefinderQuantizationKnobs : SparsefinderKnobs {
  std::int64_t sparsefinder_bins = 8;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("sparsefinder_bins", k.sparsefinder_bins,
          "bins of each dimension of sparsefinder_quantization", Trait{.is_size = true});
    SparsefinderKnobs::fields(k, visit);
  }
};

/// Self-attention only. A pair of a query and a key is scored if the predictor says so, or if the
/// key is in the query's window, or if either is global; no other takes part in the normaliser.
/// What the predictor knows stays as it is in training: it is learnt beside a model, from the pairs
/// that matter there (docs/sparsefinder.md). No gradient flows through the prediction.
class SparsefinderAttention : public SelfAttention {
 public:
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override {
    return tiles_.make_activations();
  }
  using SelfAttention::forward;
  /// As many keys as queries.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override {
    tiles_.forward(pass, q, k, v, mask, kept, o);
  }
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override {
    tiles_.backward(pass, q, k, v, mask, kept, do_, dq, dk, dv);
  }
  /// Keys, values, and of every key what the predictor has to remember.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  /// Predicts, and attends to the rows of keys and values that are left, where they lie.
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Of as many pairs as the predictor expects.
  Cost step_cost(int tokens, std::int64_t length) const override;
  Cost step_cost_of(const AttentionCache& cache, int tokens, std::int64_t length) const override;
  AttentionWork work(std::int64_t length, bool causal) const override;
  AttentionWork work_of(const Activations& kept, std::int64_t length, bool causal) const override;
  double activation_floats() const override;
  double thread_floats(std::int64_t length) const override;

 protected:
  SparsefinderAttention(const ModelConfig& config, const SparsefinderKnobs& knobs,
                        std::unique_ptr<SparsefinderPredictor> predictor);
  static void validate_knobs(const ModelConfig& config, const SparsefinderKnobs& knobs);
  static void shrink_knobs(ModelConfig& config);
  static SparsefinderSizes sizes_of(const ModelConfig& config, const SparsefinderKnobs& knobs);

 private:
  struct Cache;

  std::int64_t step_head(const StepContext& ctx, Cache& cache, std::int64_t unit, const float* q,
                         const float* k, const float* v, float* o) const;
  Cost cost_of_keys(int tokens, std::int64_t length, double keys) const;

  std::unique_ptr<SparsefinderPredictor> predictor_;
  Additions additions_;
  TiledAttention tiles_;
};

class SparsefinderDistanceAttention : public SparsefinderAttention {
 public:
  using Options = SparsefinderDistanceKnobs;
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config) { shrink_knobs(config); }
  explicit SparsefinderDistanceAttention(const ModelConfig& config);
};

class SparsefinderClusterAttention : public SparsefinderAttention {
 public:
  using Options = SparsefinderClusterKnobs;
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit SparsefinderClusterAttention(const ModelConfig& config);
};

class SparsefinderQuantizationAttention : public SparsefinderAttention {
 public:
  using Options = SparsefinderQuantizationKnobs;
  /// Bins see the whole sequence.
  static constexpr Traits kTraits{.step = StepIs::none};
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit SparsefinderQuantizationAttention(const ModelConfig& config);
  /// Throw UserError for a causal mask, and for a decode.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
};

}  // namespace scaling
