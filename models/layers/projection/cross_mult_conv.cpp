// Query and output remember their own last tokens.
#include "models/layers/projection/cross_mult_conv.h"

#include "kernels/check.h"
#include "models/layers/parts/counting.h"

namespace scaling {
namespace {

struct CrossState : LayerState {
  explicit CrossState(std::vector<ConvolutionRing> rings_) : rings(std::move(rings_)) {}
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    for (ConvolutionRing& ring : rings) ring.reorder(ctx, moves);
  }
  std::vector<ConvolutionRing> rings;  // of the query, and of the output if there is one
};

ConvolvedMultiplicative make(const ModelConfig& c, const std::string& part) {
  const auto knobs = c.options<ConvolutionKnobs>();
  return ConvolvedMultiplicative(
      part + "_mult", c.d_model, knobs.modular.modules,
      {ModuleConvolution(part + "_conv", c.d_model, knobs, kModuleTaps)});
}

}  // namespace

MultConvCrossProjection::MultConvCrossProjection(const ModelConfig& config, bool with_output)
    : CrossProjectionBase(config),
      query_(make(config, "q")),
      output_(with_output ? std::make_unique<ConvolvedMultiplicative>(make(config, "o"))
                          : nullptr) {}

void MultConvCrossProjection::visit_parameters(const ParameterVisitor& visit) {
  CrossProjectionBase::visit_parameters(visit);
  query_.visit_parameters(visit);
  if (output_) output_->visit_parameters(visit);
}

std::int64_t MultConvCrossProjection::workspace_floats(int tokens, int threads) const {
  return query_.workspace_floats(tokens, threads);
}

std::unique_ptr<LayerState> MultConvCrossProjection::make_state(int tokens) const {
  std::vector<ConvolutionRing> rings{query_.make_ring(tokens)};
  if (output_) rings.push_back(output_->make_ring(tokens));
  return std::make_unique<CrossState>(std::move(rings));
}

std::unique_ptr<Activations> MultConvCrossProjection::make_activations() const {
  return std::make_unique<Kept>();
}

void MultConvCrossProjection::forward_query(Pass& pass, const Mat& x, Activations& kept,
                                            Mat& q) const {
  query_.forward(pass, x, static_cast<Kept&>(kept).query, {&q});
}

void MultConvCrossProjection::backward_query(Pass& pass, const Mat& x, Activations& kept,
                                             const Mat& dq, Mat& dx) const {
  query_.backward(pass, x, static_cast<Kept&>(kept).query, {&dq}, dx);
}

void MultConvCrossProjection::forward_output(Pass& pass, const Mat& o, Activations& kept,
                                             Mat& y) const {
  SCALING_CHECK(output_ != nullptr);
  output_->forward(pass, o, static_cast<Kept&>(kept).output, {&y});
}

void MultConvCrossProjection::backward_output(Pass& pass, const Mat& o, Activations& kept,
                                              const Mat& dy, Mat& do_) const {
  SCALING_CHECK(output_ != nullptr);
  output_->backward(pass, o, static_cast<Kept&>(kept).output, {&dy}, do_);
}

void MultConvCrossProjection::step_query(const StepContext& ctx, LayerState* state, const float* x,
                                         float* q) const {
  SCALING_CHECK(state != nullptr);
  ConvolutionRing& ring = static_cast<CrossState*>(state)->rings[0];
  query_.step(ctx, ring, x);
  query_.finish(ctx, ring, 0, q);
  ctx.sync();
}

void MultConvCrossProjection::step_output(const StepContext& ctx, LayerState* state, const float* o,
                                          float* y) const {
  SCALING_CHECK(state != nullptr && output_ != nullptr);
  ConvolutionRing& ring = static_cast<CrossState*>(state)->rings[1];
  output_->step(ctx, ring, o);
  output_->finish(ctx, ring, 0, y);
  ctx.sync();
}

Cost MultConvCrossProjection::step_cost(int tokens, WeightType type) const {
  Cost cost = repeated(query_.step_cost(tokens, type), 1, "query");
  if (output_) append(cost, repeated(output_->step_cost(tokens, type), 1, "output"));
  return cost;
}

}  // namespace scaling
