// Two dense products with a barrier between.
#include "models/layers/loss_low_rank.h"

namespace scaling {

LowRankLoss::LowRankLoss(const ModelConfig& c) : layer_("", c.d_model, c.loss_rank, c.vocab_size) {}

void LowRankLoss::visit_parameters(const ParameterVisitor& visit) {
  layer_.visit_parameters(visit);
}

std::int64_t LowRankLoss::workspace_floats(int tokens, int threads) const {
  return layer_.workspace_floats(tokens, threads);
}

Mat LowRankLoss::forward(const Mat& x) const { return layer_.forward(x); }

void LowRankLoss::step(const StepContext& ctx, LayerState*, const float* x, float* logits) const {
  for (int p = 0; p < LowRankDense::kPhases; ++p) {
    layer_.phase(p, ctx, ctx.workspace, x, logits);
    ctx.sync();
  }
}

Cost LowRankLoss::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
