// Convolutions over modules and tokens for q, k, v and the output (paper 2.4).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/module_convolution.h"

namespace scaling {

class ConvProjection : public Projection, public CutIntoModules<ConvolutionKnobs> {
 public:
  explicit ConvProjection(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using Projection::forward;
  using Projection::forward_output;
  void forward(Pass& pass, const Mat& x, Activations& kept, QKV& y) const override;
  void backward(Pass& pass, const Mat& x, Activations& kept, const QKV& dy, Mat& dx) const override;
  void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const override;
  void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                       Mat& do_) const override;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* q, float* k,
            float* v) const override;
  bool has_output() const override { return true; }
  void step_output(const StepContext& ctx, LayerState* state, const float* o,
                   float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;
  double activation_floats() const override { return 0; }  // a bank holds those of a few positions

 private:
  ConvolutionBank qkv_, output_;
};

}  // namespace scaling
