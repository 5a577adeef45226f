// The paper's sparse QKV layer: one multiplicative layer, convolutions of its output, no output
// layer (paper 2.7).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/convolved_multiplicative.h"

namespace scaling {

/// share_qk: the query serves as key too.
class MultConvProjection : public Projection, public CutIntoModules<ConvolutionKnobs> {
 public:
  MultConvProjection(const ModelConfig& config, bool share_qk);
  void visit_parameters(const ParameterVisitor& visit) override;
  void reads_first(const StepContext& ctx, Ahead& ahead) const override {
    layer_.reads_first(ctx, ahead);
  }
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using Projection::forward;
  using Projection::forward_output;
  void forward(Pass& pass, const Mat& x, Activations& kept, QKV& y) const override;
  void backward(Pass& pass, const Mat& x, Activations& kept, const QKV& dy, Mat& dx) const override;
  /// Never called, nor the next: the caller takes o for y.
  void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const override;
  void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                       Mat& do_) const override;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* q, float* k,
            float* v) const override;
  bool has_output() const override { return false; }
  /// Likewise.
  void step_output(const StepContext& ctx, LayerState* state, const float* o,
                   float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;
  /// And the gradient of a shared query and key.
  double activation_floats() const override {
    return layer_.kept_floats() + (share_qk_ ? double(d_) : 0);
  }

 private:
  MultConvProjection(const ModelConfig& config, const ConvolutionKnobs& knobs, bool share_qk);
  std::int64_t d_;
  bool share_qk_;
  ConvolvedMultiplicative layer_;
};

}  // namespace scaling
