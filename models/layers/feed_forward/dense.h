// The dense feed-forward layer, and its variant that skips rows of W2 whose activation is zero
// (paper 1.1).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/traits.h"

namespace scaling {

/// y = relu(x W1^T + b1) W2 + b2. Both matrices hold one row of d_model per neuron.
class DenseFeedForward : public FeedForward {
 public:
  static constexpr Traits kTraits{.is_dense = true};
  explicit DenseFeedForward(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using FeedForward::forward;
  /// Drops neurons before the ReLU, alike for all positions of an example.
  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const override;
  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy, Mat& dx) const override;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;
  double forward_flops() const override { return 4 * double(d_) * double(f_); }
  double activation_floats() const override { return 2 * double(f_); }

 protected:
  /// Second half: adds the thread's neurons' contribution from activations h (tokens, d_ff) to
  /// `sum`.
  virtual void accumulate(const StepContext& ctx, LayerState* state, const float* h, Range neurons,
                          float* sum) const;
  std::int64_t d_, f_;
  Parameter w1_, b1_, w2_, b2_;
};

}  // namespace scaling
