// Two dense products with a barrier between.
#include "models/layers/loss/low_rank.h"

#include "models/config_checks.h"

namespace scaling {

LowRankLoss::LowRankLoss(const ModelConfig& c)
    : layer_("", c.d_model, c.options<LowRankLossKnobs>().loss_rank, c.vocab_size) {}

void LowRankLoss::validate(const ModelConfig& config) {
  require_positive("loss_rank", config.options<LowRankLossKnobs>().loss_rank);
}

void LowRankLoss::visit_parameters(const ParameterVisitor& visit) {
  layer_.visit_parameters(visit);
}

std::int64_t LowRankLoss::workspace_floats(int tokens, int threads) const {
  return layer_.workspace_floats(tokens, threads);
}

std::unique_ptr<Activations> LowRankLoss::make_activations() const {
  return std::make_unique<Kept>();
}

void LowRankLoss::forward(Pass& pass, const Mat& x, Activations& kept, Mat& logits) const {
  layer_.forward(pass, x, static_cast<Kept&>(kept).layer, logits);
}

void LowRankLoss::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dlogits,
                           Mat& dx) const {
  layer_.backward(pass, x, static_cast<Kept&>(kept).layer, dlogits, dx);
}

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
