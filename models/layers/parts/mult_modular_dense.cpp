// Composition of the multiplicative and the block-diagonal building blocks.
#include "models/layers/parts/mult_modular_dense.h"

#include <algorithm>

#include "models/layers/parts/product.h"

namespace scaling {

MultModularDense::MultModularDense(const std::string& prefix, std::int64_t d, std::int64_t modules)
    : d_(d),
      multiplicative_(prefix, d, modules, d, /*has_bias=*/false),
      local_(joined_name(prefix, "k"), joined_name(prefix, "bias"), d, modules, {d}) {}

void MultModularDense::visit_parameters(const ParameterVisitor& visit) {
  multiplicative_.visit_parameters(visit);
  local_.visit_parameters(visit);
}

void MultModularDense::forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const {
  multiplicative_.forward(pass, x, kept.multiplicative, kept.between);
  local_.forward(pass, kept.between, kept.local, y);
}

void MultModularDense::backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                                bool accumulate) const {
  local_.backward(pass, kept.between, kept.local, dy, kept.dbetween);
  multiplicative_.backward(pass, x, kept.multiplicative, kept.dbetween, dx, accumulate);
}

void MultModularDense::phase(int p, const StepContext& ctx, float* workspace, const float* x,
                             float* y) const {
  float* between = workspace;
  float* rest = workspace + padded(ctx.tokens * d_);
  if (p < 2) {
    multiplicative_.phase(p, ctx, rest, x, between);
  } else {
    local_.phase(0, ctx, rest, between, y);
  }
}

std::int64_t MultModularDense::workspace_floats(int tokens, int threads) const {
  return padded(tokens * d_) + std::max(multiplicative_.workspace_floats(tokens, threads),
                                        local_.workspace_floats(tokens, threads));
}

Cost MultModularDense::step_cost(int tokens, WeightType type) const {
  Cost cost = multiplicative_.step_cost(tokens, type);
  append(cost, local_.step_cost(tokens, type));
  return cost;
}

}  // namespace scaling
