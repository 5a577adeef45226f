// Dense cross-attention projections, and the dense keys and values that every variant shares
// (paper 2.8).
#pragma once

#include <memory>

#include "models/layer.h"
#include "models/layers/parts/dense_product.h"
#include "models/layers/traits.h"

namespace scaling {

/// Keys and values of the encoder output: parameters k, k_bias, v, v_bias.
class CrossProjectionBase : public CrossProjection {
 public:
  explicit CrossProjectionBase(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  using CrossProjection::forward_memory;
  void forward_memory(Pass& pass, const Mat& encoded, Activations& kept, Memory& y) const override;
  void backward_memory(Pass& pass, const Mat& encoded, Activations& kept, const Memory& dy,
                       Mat& dencoded) const override;
  void step_memory(const StepContext& ctx, const float* encoded, float* k, float* v) const override;
  double memory_flops() const override;

 protected:
  /// What every variant's Activations derive from.
  struct MemoryActivations : Activations {
    DenseProduct::Kept k, v;
  };

 private:
  DenseProduct k_, v_;
};

/// Dense query and output: parameters q, q_bias, o, o_bias.
class DenseCrossProjection : public CrossProjectionBase {
 public:
  static constexpr Traits kTraits{.is_dense = true};
  explicit DenseCrossProjection(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using CrossProjection::forward_output;
  using CrossProjection::forward_query;
  void forward_query(Pass& pass, const Mat& x, Activations& kept, Mat& q) const override;
  void backward_query(Pass& pass, const Mat& x, Activations& kept, const Mat& dq,
                      Mat& dx) const override;
  void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const override;
  void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                       Mat& do_) const override;
  void step_query(const StepContext& ctx, LayerState* state, const float* x,
                  float* q) const override;
  bool has_output() const override { return true; }
  void step_output(const StepContext& ctx, LayerState* state, const float* o,
                   float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;
  double activation_floats() const override { return q_.kept_floats() + o_.kept_floats(); }

 private:
  struct Kept : MemoryActivations {
    DenseProduct::Kept q, o;
  };
  DenseProduct q_, o_;
};

}  // namespace scaling
