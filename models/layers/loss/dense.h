// The dense layer to the vocabulary (paper 3).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/dense_product.h"
#include "models/layers/traits.h"

namespace scaling {

/// logits = x W^T + b. Parameters w, bias.
class DenseLoss : public Loss {
 public:
  static constexpr Traits kTraits{.is_dense = true};
  explicit DenseLoss(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using Loss::forward;
  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& logits) const override;
  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dlogits,
                Mat& dx) const override;
  void step(const StepContext& ctx, LayerState* state, const float* x,
            float* logits) const override;
  Cost step_cost(int tokens, WeightType type) const override;

 private:
  struct Kept : LossActivations {
    DenseProduct::Kept layer;
  };
  DenseProduct layer_;
};

}  // namespace scaling
