// The paper's sparse loss: a multiplicative layer to the vocabulary (paper 3).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/multiplicative_dense.h"

namespace scaling {

struct MultiplicativeLossKnobs {
  std::int64_t loss_modules = 4;  // S

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("loss_modules", k.loss_modules, "S of the multiplicative loss", Trait{.is_size = true});
  }
};

/// Logit s * (V / S) + m. Parameters d, e, bias; S = loss_modules.
class MultiplicativeLoss : public Loss {
 public:
  using Options = MultiplicativeLossKnobs;
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config) { set_field(config, "loss_modules", 8); }
  explicit MultiplicativeLoss(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int, int) const override;
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
    MultiplicativeDense::Kept layer;
  };
  MultiplicativeDense layer_;
};

}  // namespace scaling
