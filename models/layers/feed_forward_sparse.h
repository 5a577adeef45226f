// The paper's sparse feed-forward layer: a low-rank controller chooses one neuron in N (3.1,
// reference 1.2).
#pragma once

#include "models/layer.h"
#include "models/layers/partial_sums.h"

namespace scaling {

class SparseFeedForward : public FeedForward {
 public:
  explicit SparseFeedForward(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  /// The masked dense definition.
  Mat forward(const Mat& x) const override;
  /// Controller logits z (positions, d_ff), of which forward takes the argmax of every block.
  Mat controller_logits(const Mat& x) const;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const override;
  /// For several tokens the gathered rows are the expected union of uniform, independent
  /// selections.
  Cost step_cost(int tokens, WeightType type) const override;
  std::vector<std::int32_t> touched_rows(const LayerState* state) const override;
  /// Row chosen by `token` in `block` at the last step.
  std::int32_t chosen_row(const LayerState* state, int token, std::int64_t block) const;

 private:
  std::int64_t list_selections(const StepContext& ctx, const std::int32_t* selected, Range blocks,
                               Selection* list) const;
  std::int64_t d_, f_, n_, blocks_, rank_;
  bool has_b1_;
  Parameter c1_, c2_, controller_bias_, w1_, b1_, w2_, b2_;
};

}  // namespace scaling
