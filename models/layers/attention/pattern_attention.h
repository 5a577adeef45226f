// Dot-product attention (paper 4.1, 4.2) over the pairs that a pattern allows.
#pragma once

#include <memory>

#include "models/layers/attention/tiles.h"
#include "models/layers/traits.h"

namespace scaling {

/// Knobs of every attention with a pattern.
struct PatternKnobs {
  Normaliser normaliser = Normaliser::softmax;
  double entmax_alpha = 1.5;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("normaliser", k.normaliser,
          "from self-attention's scores to probabilities: softmax, sparsemax, entmax15 or entmax");
    visit("entmax_alpha", k.entmax_alpha,
          "alpha of the normaliser entmax, above 1: 1.5 is entmax15, 2 sparsemax; more is sparser");
  }
};

class PatternAttention : public SelfAttention {
 public:
  static constexpr Traits kTraits{.shares_heads = true};
  /// Throws UserError if entmax_alpha is none.
  static void validate(const ModelConfig& config) {
    const auto knobs = config.options<PatternKnobs>();
    make_normaliser(knobs.normaliser, knobs.entmax_alpha);
  }
  /// With the config's PatternKnobs.
  PatternAttention(const ModelConfig& config, std::unique_ptr<Pattern> pattern);
  void take_heads(Range heads) override;
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override {
    return tiles_.make_activations();
  }
  using SelfAttention::forward;
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override {
    tiles_.forward(pass, q, k, v, mask, kept, o);
  }
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override {
    tiles_.backward(pass, q, k, v, mask, kept, do_, dq, dk, dv);
  }
  /// Has the pattern's slots.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  /// Reads what the pattern says; where that is one range, of its values those only that get a
  /// probability.
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Keys and values that a step at the last position reads; where most probabilities are zero and
  /// what is read is one range, of values one position's, the least that a step reads.
  Cost step_cost(int tokens, std::int64_t length) const override;
  /// Every pair of the pattern, of padding too.
  AttentionWork work(std::int64_t length, bool causal) const override;
  double activation_floats() const override { return tiles_.activation_floats(); }
  double thread_floats(std::int64_t length) const override {
    return tiles_.thread_floats(length, length);
  }

 private:
  struct Cache;
  TiledAttention tiles_;
};

}  // namespace scaling
