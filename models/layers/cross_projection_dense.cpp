// Dense cross-attention.
#include "models/layers/cross_projection_dense.h"

#include "models/layers/counting.h"

namespace scaling {

CrossProjectionBase::CrossProjectionBase(const ModelConfig& c)
    : k_("k", "k_bias", c.d_model, c.d_model), v_("v", "v_bias", c.d_model, c.d_model) {}

void CrossProjectionBase::visit_parameters(const ParameterVisitor& visit) {
  k_.visit_parameters(visit);
  v_.visit_parameters(visit);
}

CrossProjection::Memory CrossProjectionBase::forward_memory(const Mat& encoded) const {
  return {k_.forward(encoded), v_.forward(encoded)};
}

void CrossProjectionBase::step_memory(const StepContext& ctx, const float* encoded, float* k,
                                      float* v) const {
  k_.phase(0, ctx, ctx.workspace, encoded, k);
  v_.phase(0, ctx, ctx.workspace, encoded, v);
  ctx.sync();
}

DenseCrossProjection::DenseCrossProjection(const ModelConfig& c)
    : CrossProjectionBase(c),
      q_("q", "q_bias", c.d_model, c.d_model),
      o_("o", "o_bias", c.d_model, c.d_model) {}

void DenseCrossProjection::visit_parameters(const ParameterVisitor& visit) {
  CrossProjectionBase::visit_parameters(visit);
  q_.visit_parameters(visit);
  o_.visit_parameters(visit);
}

Mat DenseCrossProjection::forward_query(const Mat& x) const { return q_.forward(x); }
Mat DenseCrossProjection::forward_output(const Mat& o) const { return o_.forward(o); }

void DenseCrossProjection::step_query(const StepContext& ctx, LayerState*, const float* x,
                                      float* q) const {
  q_.phase(0, ctx, ctx.workspace, x, q);
  ctx.sync();
}

void DenseCrossProjection::step_output(const StepContext& ctx, LayerState*, const float* o,
                                       float* y) const {
  o_.phase(0, ctx, ctx.workspace, o, y);
  ctx.sync();
}

Cost DenseCrossProjection::step_cost(int tokens, WeightType type) const {
  Cost cost = repeated(q_.step_cost(tokens, type), 1, "query");
  append(cost, repeated(o_.step_cost(tokens, type), 1, "output"));
  return cost;
}

}  // namespace scaling
