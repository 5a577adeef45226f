// The multiplicative output goes straight into the ring. Where threads share columns each has its
// channels whole, and lays them there itself; else adding up the partial sums is the transposition.
#include "models/layers/parts/convolved_multiplicative.h"

namespace scaling {

ConvolvedMultiplicative::ConvolvedMultiplicative(const std::string& prefix, std::int64_t d,
                                                 std::int64_t modules,
                                                 std::vector<ModuleConvolution> convolutions)
    : d_(d), multiplicative_(prefix, d, modules, d), bank_(std::move(convolutions)) {}

void ConvolvedMultiplicative::visit_parameters(const ParameterVisitor& visit) {
  multiplicative_.visit_parameters(visit);
  bank_.visit_parameters(visit);
}

void ConvolvedMultiplicative::forward(Pass& pass, const Mat& x, Kept& kept,
                                      std::initializer_list<Mat*> y) const {
  multiplicative_.forward(pass, x, kept.multiplicative, kept.m);
  bank_.forward(pass, kept.m, kept.bank, y);
}

void ConvolvedMultiplicative::backward(Pass& pass, const Mat& x, Kept& kept,
                                       std::initializer_list<const Mat*> dy, Mat& dx) const {
  bank_.backward(pass, kept.m, kept.bank, dy, kept.dm);
  multiplicative_.backward(pass, x, kept.multiplicative, kept.dm, dx);
}

std::int64_t ConvolvedMultiplicative::workspace_floats(int tokens, int threads) const {
  // The two parts do not overlap: a slow thread may still read the first while a fast one writes
  // the second.
  return multiplicative_.workspace_floats(tokens, threads) +
         bank_.workspace_floats(tokens, threads);
}

void ConvolvedMultiplicative::step(const StepContext& ctx, ConvolutionRing& ring,
                                   const float* x) const {
  Ahead convolutions;
  bank_.reads(ctx, convolutions);
  if (bank_.by_columns(ctx.threads)) {
    multiplicative_.step_by_columns(ctx, x, ctx.workspace, &convolutions);
    ring.write(ctx, ctx.workspace, 0, 1, nullptr);
  } else {
    multiplicative_.phase(0, ctx, ctx.workspace, x, nullptr, &convolutions);
    ctx.sync();
    const PartialSums m = multiplicative_.sums(ctx, ctx.workspace);
    ring.write(ctx, m.base, m.of(1) - m.base, ctx.threads, multiplicative_.bias());
  }
  ctx.sync();
  bank_.sum(ctx, ring, ctx.workspace + multiplicative_.workspace_floats(ctx.tokens, ctx.threads));
}

void ConvolvedMultiplicative::finish(const StepContext& ctx, const ConvolutionRing& ring,
                                     std::size_t i, float* y) const {
  bank_.finish(ctx, ring, ctx.workspace + multiplicative_.workspace_floats(ctx.tokens, ctx.threads),
               i, y);
}

Cost ConvolvedMultiplicative::step_cost(int tokens, WeightType type) const {
  Cost cost = multiplicative_.step_cost(tokens, type);
  append(cost, bank_.step_cost(tokens, type));
  return cost;
}

}  // namespace scaling
