// The vocabulary is wide enough to share columns, so there are no partial sums to add up.
#include "models/layers/loss_multiplicative.h"

namespace scaling {

MultiplicativeLoss::MultiplicativeLoss(const ModelConfig& c)
    : layer_("", c.d_model, c.loss_modules, c.vocab_size) {}

void MultiplicativeLoss::visit_parameters(const ParameterVisitor& visit) {
  layer_.visit_parameters(visit);
}

std::int64_t MultiplicativeLoss::workspace_floats(int, int) const { return 0; }

Mat MultiplicativeLoss::forward(const Mat& x) const { return layer_.forward(x); }

void MultiplicativeLoss::step(const StepContext& ctx, LayerState*, const float* x,
                              float* logits) const {
  layer_.step_by_columns(ctx, x, logits);
  ctx.sync();
}

Cost MultiplicativeLoss::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
