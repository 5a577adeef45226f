// The vocabulary is wide enough to share columns, so there are no partial sums to add up.
#include "models/layers/loss/multiplicative.h"

#include "kernels/kernels.h"
#include "models/config_checks.h"

namespace scaling {

MultiplicativeLoss::MultiplicativeLoss(const ModelConfig& c)
    : layer_("", c.d_model, c.options<MultiplicativeLossKnobs>().loss_modules, c.vocab_size) {}

void MultiplicativeLoss::validate(const ModelConfig& config) {
  const std::int64_t modules = config.options<MultiplicativeLossKnobs>().loss_modules;
  require_divides("vocab_size", config.vocab_size, "loss_modules", modules);
  require_at_most("loss_modules", modules, kMaxModules);
}

void MultiplicativeLoss::visit_parameters(const ParameterVisitor& visit) {
  layer_.visit_parameters(visit);
}

std::int64_t MultiplicativeLoss::workspace_floats(int, int) const { return 0; }

std::unique_ptr<Activations> MultiplicativeLoss::make_activations() const {
  return std::make_unique<Kept>();
}

void MultiplicativeLoss::forward(Pass& pass, const Mat& x, Activations& kept, Mat& logits) const {
  layer_.forward(pass, x, static_cast<Kept&>(kept).layer, logits);
}

void MultiplicativeLoss::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dlogits,
                                  Mat& dx) const {
  layer_.backward(pass, x, static_cast<Kept&>(kept).layer, dlogits, dx);
}

void MultiplicativeLoss::step(const StepContext& ctx, LayerState*, const float* x,
                              float* logits) const {
  layer_.step_by_columns(ctx, x, logits);
  ctx.sync();
}

Cost MultiplicativeLoss::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
