// Sparse cross-attention: the query by a multiplicative layer and a convolution, the output
// likewise or left out.
#pragma once

#include <memory>

#include "models/layers/parts/convolved_multiplicative.h"
#include "models/layers/projection/cross_dense.h"

namespace scaling {

class MultConvCrossProjection : public CrossProjectionBase,
                                public CutIntoModules<ConvolutionKnobs> {
 public:
  MultConvCrossProjection(const ModelConfig& config, bool with_output);
  void visit_parameters(const ParameterVisitor& visit) override;
  void reads_first(const StepContext& ctx, Ahead& ahead) const override {
    query_.reads_first(ctx, ahead);
  }
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using CrossProjection::forward_output;
  using CrossProjection::forward_query;
  void forward_query(Pass& pass, const Mat& x, Activations& kept, Mat& q) const override;
  void backward_query(Pass& pass, const Mat& x, Activations& kept, const Mat& dq,
                      Mat& dx) const override;
  /// Only if has_output(), like the next; otherwise the caller takes o for y.
  void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const override;
  void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                       Mat& do_) const override;
  void step_query(const StepContext& ctx, LayerState* state, const float* x,
                  float* q) const override;
  bool has_output() const override { return output_ != nullptr; }
  /// Likewise.
  void step_output(const StepContext& ctx, LayerState* state, const float* o,
                   float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;
  double activation_floats() const override {
    return query_.kept_floats() + (output_ ? output_->kept_floats() : 0);
  }

 private:
  struct Kept : MemoryActivations {
    ConvolvedMultiplicative::Kept query, output;
  };
  ConvolvedMultiplicative query_;
  std::unique_ptr<ConvolvedMultiplicative> output_;
};

}  // namespace scaling
