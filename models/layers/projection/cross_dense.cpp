// Dense cross-attention.
#include "models/layers/projection/cross_dense.h"

#include "models/layers/parts/counting.h"

namespace scaling {

CrossProjectionBase::CrossProjectionBase(const ModelConfig& c)
    : k_("k", "k_bias", c.d_model, c.d_model), v_("v", "v_bias", c.d_model, c.d_model) {}

void CrossProjectionBase::visit_parameters(const ParameterVisitor& visit) {
  k_.visit_parameters(visit);
  v_.visit_parameters(visit);
}

void CrossProjectionBase::forward_memory(Pass& pass, const Mat& encoded, Activations& kept,
                                         Memory& y) const {
  auto& own = static_cast<MemoryActivations&>(kept);
  k_.forward(pass, encoded, own.k, y.k);
  v_.forward(pass, encoded, own.v, y.v);
}

void CrossProjectionBase::backward_memory(Pass& pass, const Mat& encoded, Activations& kept,
                                          const Memory& dy, Mat& dencoded) const {
  auto& own = static_cast<MemoryActivations&>(kept);
  k_.backward(pass, encoded, own.k, dy.k, dencoded);
  v_.backward(pass, encoded, own.v, dy.v, dencoded, /*accumulate=*/true);
}

void CrossProjectionBase::step_memory(const StepContext& ctx, const float* encoded, float* k,
                                      float* v) const {
  k_.phase(0, ctx, ctx.workspace, encoded, k);
  v_.phase(0, ctx, ctx.workspace, encoded, v);
  ctx.sync();
}

double CrossProjectionBase::memory_flops() const {
  return total(k_.step_cost(1, WeightType::f32)).flops +
         total(v_.step_cost(1, WeightType::f32)).flops;
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

std::unique_ptr<Activations> DenseCrossProjection::make_activations() const {
  return std::make_unique<Kept>();
}

void DenseCrossProjection::forward_query(Pass& pass, const Mat& x, Activations& kept,
                                         Mat& q) const {
  q_.forward(pass, x, static_cast<Kept&>(kept).q, q);
}

void DenseCrossProjection::backward_query(Pass& pass, const Mat& x, Activations& kept,
                                          const Mat& dq, Mat& dx) const {
  q_.backward(pass, x, static_cast<Kept&>(kept).q, dq, dx);
}

void DenseCrossProjection::forward_output(Pass& pass, const Mat& o, Activations& kept,
                                          Mat& y) const {
  o_.forward(pass, o, static_cast<Kept&>(kept).o, y);
}

void DenseCrossProjection::backward_output(Pass& pass, const Mat& o, Activations& kept,
                                           const Mat& dy, Mat& do_) const {
  o_.backward(pass, o, static_cast<Kept&>(kept).o, dy, do_);
}

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
