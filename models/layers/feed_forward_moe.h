// Mixture of experts: contiguous slices of the neurons, one chosen per token by a router
// (reference 1.3).
#pragma once

#include "models/layer.h"
#include "models/layers/partial_sums.h"

namespace scaling {

/// Block: the chosen expert's output as it is. Switch: its activations scaled by the router's
/// probability.
class MoeFeedForward : public FeedForward {
 public:
  enum class Kind { block, switched };
  MoeFeedForward(const ModelConfig& config, Kind kind);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  Mat forward(const Mat& x) const override;
  /// Router logits (positions, experts).
  Mat router_logits(const Mat& x) const;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const override;
  /// For several tokens the slices are the expected union of uniform, independent choices.
  Cost step_cost(int tokens, WeightType type) const override;
  std::vector<std::int32_t> touched_rows(const LayerState* state) const override;
  /// Expert of `token` at the last step.
  std::int64_t chosen_expert(const LayerState* state, int token) const;

 private:
  struct Choice {
    std::int64_t expert;
    float scale;
  };
  Choice choose(const float* logits) const;
  void apply_expert(const StepContext& ctx, const Choice& choice, const float* x, float* h,
                    float* sum) const;

  const Kind kind_;
  std::int64_t d_, f_, experts_, width_;
  Parameter router_, w1_, w2_, b2_;
};

}  // namespace scaling
