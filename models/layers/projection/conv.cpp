// One ring of inputs serves q, k and v; attention's outputs have a ring of their own.
#include "models/layers/projection/conv.h"

#include "kernels/check.h"
#include "models/layers/parts/counting.h"

namespace scaling {
namespace {

struct ConvState : LayerState {
  ConvState(ConvolutionRing inputs_, ConvolutionRing outputs_)
      : inputs(std::move(inputs_)), outputs(std::move(outputs_)) {}
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    inputs.reorder(ctx, moves);
    outputs.reorder(ctx, moves);
  }
  ConvolutionRing inputs, outputs;
};

struct ConvActivations : Activations {
  ConvolutionBank::Kept qkv, output;
};

ModuleConvolution make(const char* name, const ModelConfig& c) {
  return ModuleConvolution(name, c.d_model, c.options<ConvolutionKnobs>(), kModuleTaps);
}

}  // namespace

ConvProjection::ConvProjection(const ModelConfig& c)
    : qkv_({make("q", c), make("k", c), make("v", c)}), output_({make("o", c)}) {}

void ConvProjection::visit_parameters(const ParameterVisitor& visit) {
  qkv_.visit_parameters(visit);
  output_.visit_parameters(visit);
}

std::int64_t ConvProjection::workspace_floats(int tokens, int threads) const {
  return qkv_.workspace_floats(tokens, threads);
}

std::unique_ptr<LayerState> ConvProjection::make_state(int tokens) const {
  return std::make_unique<ConvState>(qkv_.make_ring(tokens), output_.make_ring(tokens));
}

std::unique_ptr<Activations> ConvProjection::make_activations() const {
  return std::make_unique<ConvActivations>();
}

void ConvProjection::forward(Pass& pass, const Mat& x, Activations& kept, QKV& y) const {
  qkv_.forward(pass, x, static_cast<ConvActivations&>(kept).qkv, {&y.q, &y.k, &y.v});
}

void ConvProjection::backward(Pass& pass, const Mat& x, Activations& kept, const QKV& dy,
                              Mat& dx) const {
  qkv_.backward(pass, x, static_cast<ConvActivations&>(kept).qkv, {&dy.q, &dy.k, &dy.v}, dx);
}

void ConvProjection::forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const {
  output_.forward(pass, o, static_cast<ConvActivations&>(kept).output, {&y});
}

void ConvProjection::backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                                     Mat& do_) const {
  output_.backward(pass, o, static_cast<ConvActivations&>(kept).output, {&dy}, do_);
}

void ConvProjection::step(const StepContext& ctx, LayerState* state, const float* x, float* q,
                          float* k, float* v) const {
  SCALING_CHECK(state != nullptr);
  ConvolutionRing& ring = static_cast<ConvState*>(state)->inputs;
  ring.write(ctx, x, 0, 1, nullptr);
  ctx.sync();
  qkv_.sum(ctx, ring, ctx.workspace);
  qkv_.finish(ctx, ring, ctx.workspace, 0, q);
  qkv_.finish(ctx, ring, ctx.workspace, 1, k);
  qkv_.finish(ctx, ring, ctx.workspace, 2, v);
  ctx.sync();
}

void ConvProjection::step_output(const StepContext& ctx, LayerState* state, const float* o,
                                 float* y) const {
  ConvolutionRing& ring = static_cast<ConvState*>(state)->outputs;
  ring.write(ctx, o, 0, 1, nullptr);
  ctx.sync();
  output_.sum(ctx, ring, ctx.workspace);
  output_.finish(ctx, ring, ctx.workspace, 0, y);
  ctx.sync();
}

Cost ConvProjection::step_cost(int tokens, WeightType type) const {
  Cost cost = repeated(qkv_.step_cost(tokens, type), 1, "qkv");
  append(cost, repeated(output_.step_cost(tokens, type), 1, "output"));
  return cost;
}

}  // namespace scaling
