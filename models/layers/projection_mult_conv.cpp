// Queries and keys see three modules of F tokens, values one module of F tokens.
#include "models/layers/projection_mult_conv.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {
namespace {

struct MultConvState : LayerState {
  explicit MultConvState(ConvolutionRing ring_) : ring(std::move(ring_)) {}
  ConvolutionRing ring;
};

std::vector<ModuleConvolution> convolutions(const ModelConfig& c, bool share_qk) {
  std::vector<ModuleConvolution> all;
  const auto add = [&](const char* name, int module_taps) {
    all.emplace_back(name, c.d_model, c.modules, c.kernel_size, module_taps);
  };
  add(share_qk ? "qk" : "q", kModuleTaps);
  if (!share_qk) add("k", kModuleTaps);
  add("v", 1);
  return all;
}

}  // namespace

MultConvProjection::MultConvProjection(const ModelConfig& config, bool share_qk)
    : d_(config.d_model),
      share_qk_(share_qk),
      layer_("mult", config, convolutions(config, share_qk)) {}

void MultConvProjection::visit_parameters(const ParameterVisitor& visit) {
  layer_.visit_parameters(visit);
}

std::int64_t MultConvProjection::workspace_floats(int tokens, int threads) const {
  return layer_.workspace_floats(tokens, threads);
}

std::unique_ptr<LayerState> MultConvProjection::make_state(int tokens) const {
  return std::make_unique<MultConvState>(layer_.make_ring(tokens));
}

Projection::QKV MultConvProjection::forward(const Mat& x) const {
  const std::vector<Mat> out = layer_.forward(x);
  return {out[0], out[share_qk_ ? 0 : 1], out[share_qk_ ? 1 : 2]};
}

void MultConvProjection::step(const StepContext& ctx, LayerState* state, const float* x, float* q,
                              float* k, float* v) const {
  SCALING_CHECK(state != nullptr);
  layer_.step(ctx, static_cast<MultConvState*>(state)->ring, x);
  layer_.finish(ctx, 0, q);
  if (share_qk_) {
    const Range own = ctx.share(d_, 16);
    for (int t = 0; t < ctx.tokens; ++t) {
      std::copy(q + t * d_ + own.begin, q + t * d_ + own.end, k + t * d_ + own.begin);
    }
  } else {
    layer_.finish(ctx, 1, k);
  }
  layer_.finish(ctx, share_qk_ ? 1 : 2, v);
  ctx.sync();
}

void MultConvProjection::step_output(const StepContext&, LayerState*, const float*, float*) const {
  SCALING_CHECK(has_output());
}

Cost MultConvProjection::step_cost(int tokens, WeightType type) const {
  return layer_.step_cost(tokens, type);
}

}  // namespace scaling
