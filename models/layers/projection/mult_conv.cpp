// Queries and keys see three modules of F tokens, values one module of F tokens.
#include "models/layers/projection/mult_conv.h"

#include "kernels/check.h"

namespace scaling {
namespace {

struct MultConvState : LayerState {
  explicit MultConvState(ConvolutionRing ring_) : ring(std::move(ring_)) {}
  void reorder(const StepContext& ctx, const RowMoves& moves) override { ring.reorder(ctx, moves); }
  ConvolutionRing ring;
};

struct MultConvActivations : Activations {
  ConvolvedMultiplicative::Kept layer;
  Mat dqk;  // of a shared query and key
};

std::vector<ModuleConvolution> convolutions(std::int64_t d, const ConvolutionKnobs& knobs,
                                            bool share_qk) {
  std::vector<ModuleConvolution> all;
  const auto add = [&](const char* name, int module_taps) {
    all.emplace_back(name, d, knobs, module_taps);
  };
  add(share_qk ? "qk" : "q", kModuleTaps);
  if (!share_qk) add("k", kModuleTaps);
  add("v", 1);
  return all;
}

}  // namespace

MultConvProjection::MultConvProjection(const ModelConfig& config, bool share_qk)
    : MultConvProjection(config, config.options<ConvolutionKnobs>(), share_qk) {}

MultConvProjection::MultConvProjection(const ModelConfig& config, const ConvolutionKnobs& knobs,
                                       bool share_qk)
    : d_(config.d_model),
      share_qk_(share_qk),
      layer_("mult", d_, knobs.modular.modules, convolutions(d_, knobs, share_qk)) {}

void MultConvProjection::visit_parameters(const ParameterVisitor& visit) {
  layer_.visit_parameters(visit);
}

std::int64_t MultConvProjection::workspace_floats(int tokens, int threads) const {
  return layer_.workspace_floats(tokens, threads);
}

std::unique_ptr<LayerState> MultConvProjection::make_state(int tokens) const {
  return std::make_unique<MultConvState>(layer_.make_ring(tokens));
}

std::unique_ptr<Activations> MultConvProjection::make_activations() const {
  return std::make_unique<MultConvActivations>();
}

void MultConvProjection::forward(Pass& pass, const Mat& x, Activations& kept, QKV& y) const {
  auto& own = static_cast<MultConvActivations&>(kept);
  if (share_qk_) {
    layer_.forward(pass, x, own.layer, {&y.q, &y.v});
    y.k = y.q;
  } else {
    layer_.forward(pass, x, own.layer, {&y.q, &y.k, &y.v});
  }
}

void MultConvProjection::backward(Pass& pass, const Mat& x, Activations& kept, const QKV& dy,
                                  Mat& dx) const {
  auto& own = static_cast<MultConvActivations&>(kept);
  if (share_qk_) {
    own.dqk = dy.q + dy.k;
    layer_.backward(pass, x, own.layer, {&own.dqk, &dy.v}, dx);
  } else {
    layer_.backward(pass, x, own.layer, {&dy.q, &dy.k, &dy.v}, dx);
  }
}

void MultConvProjection::forward_output(Pass&, const Mat&, Activations&, Mat&) const {
  SCALING_CHECK(has_output());
}

void MultConvProjection::backward_output(Pass&, const Mat&, Activations&, const Mat&, Mat&) const {
  SCALING_CHECK(has_output());
}

void MultConvProjection::step(const StepContext& ctx, LayerState* state, const float* x, float* q,
                              float* k, float* v) const {
  SCALING_CHECK(state != nullptr);
  ConvolutionRing& ring = static_cast<MultConvState*>(state)->ring;
  layer_.step(ctx, ring, x);
  layer_.finish(ctx, ring, 0, q);
  if (share_qk_) {
    layer_.copy_share(ctx, q, k);
  } else {
    layer_.finish(ctx, ring, 1, k);
  }
  layer_.finish(ctx, ring, share_qk_ ? 1 : 2, v);
  ctx.sync();
}

void MultConvProjection::step_output(const StepContext&, LayerState*, const float*, float*) const {
  SCALING_CHECK(has_output());
}

Cost MultConvProjection::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
