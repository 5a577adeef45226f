// Dense cross-attention projections, and the dense keys and values that every variant shares
// (reference 2.8).
#pragma once

#include "models/layer.h"
#include "models/layers/dense_product.h"

namespace scaling {

/// Keys and values of the encoder output: parameters k, k_bias, v, v_bias.
class CrossProjectionBase : public CrossProjection {
 public:
  explicit CrossProjectionBase(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  Memory forward_memory(const Mat& encoded) const override;
  void step_memory(const StepContext& ctx, const float* encoded, float* k, float* v) const override;

 private:
  DenseProduct k_, v_;
};

/// Dense query and output: parameters q, q_bias, o, o_bias.
class DenseCrossProjection : public CrossProjectionBase {
 public:
  explicit DenseCrossProjection(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int, int) const override { return 0; }
  Mat forward_query(const Mat& x) const override;
  Mat forward_output(const Mat& o) const override;
  void step_query(const StepContext& ctx, LayerState* state, const float* x,
                  float* q) const override;
  bool has_output() const override { return true; }
  void step_output(const StepContext& ctx, LayerState* state, const float* o,
                   float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;

 private:
  DenseProduct q_, o_;
};

}  // namespace scaling
