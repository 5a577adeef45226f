// Rows of the vocabulary are shared among the threads.
#include "models/layers/loss_dense.h"

namespace scaling {

DenseLoss::DenseLoss(const ModelConfig& c) : layer_("w", "bias", c.d_model, c.vocab_size) {}

void DenseLoss::visit_parameters(const ParameterVisitor& visit) { layer_.visit_parameters(visit); }

std::int64_t DenseLoss::workspace_floats(int tokens, int threads) const {
  return layer_.workspace_floats(tokens, threads);
}

Mat DenseLoss::forward(const Mat& x) const { return layer_.forward(x); }

void DenseLoss::step(const StepContext& ctx, LayerState*, const float* x, float* logits) const {
  layer_.phase(0, ctx, ctx.workspace, x, logits);
  ctx.sync();
}

Cost DenseLoss::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
