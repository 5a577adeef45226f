// Sparse cross-attention: the query by a multiplicative layer and a convolution, the output
// likewise or left out.
#pragma once

#include <memory>

#include "models/layers/convolved_multiplicative.h"
#include "models/layers/cross_projection_dense.h"

namespace scaling {

class MultConvCrossProjection : public CrossProjectionBase {
 public:
  MultConvCrossProjection(const ModelConfig& config, bool with_output);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  Mat forward_query(const Mat& x) const override;
  Mat forward_output(const Mat& o) const override;
  void step_query(const StepContext& ctx, LayerState* state, const float* x,
                  float* q) const override;
  bool has_output() const override { return output_ != nullptr; }
  /// Only if has_output(); otherwise the caller takes o for y.
  void step_output(const StepContext& ctx, LayerState* state, const float* o,
                   float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;

 private:
  ConvolvedMultiplicative query_;
  std::unique_ptr<ConvolvedMultiplicative> output_;
};

}  // namespace scaling
