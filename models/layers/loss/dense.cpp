// Rows of the vocabulary are shared among the threads.
#include "models/layers/loss/dense.h"

namespace scaling {

DenseLoss::DenseLoss(const ModelConfig& c) : layer_("w", "bias", c.d_model, c.vocab_size) {}

void DenseLoss::visit_parameters(const ParameterVisitor& visit) { layer_.visit_parameters(visit); }

std::int64_t DenseLoss::workspace_floats(int tokens, int threads) const {
  return layer_.workspace_floats(tokens, threads);
}

std::unique_ptr<Activations> DenseLoss::make_activations() const {
  return std::make_unique<Kept>();
}

void DenseLoss::forward(Pass& pass, const Mat& x, Activations& kept, Mat& logits) const {
  layer_.forward(pass, x, static_cast<Kept&>(kept).layer, logits);
}

void DenseLoss::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dlogits,
                         Mat& dx) const {
  layer_.backward(pass, x, static_cast<Kept&>(kept).layer, dlogits, dx);
}

void DenseLoss::step(const StepContext& ctx, LayerState*, const float* x, float* logits) const {
  layer_.phase(0, ctx, ctx.workspace, x, logits);
  ctx.sync();
}

Cost DenseLoss::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
