// The multiplicative building block.
#include "models/layers/multiplicative_dense.h"

#include <algorithm>

#include "models/layers/counting.h"
#include "models/layers/product.h"

namespace scaling {

MultiplicativeDense::MultiplicativeDense(const std::string& prefix, std::int64_t d_in,
                                         std::int64_t modules, std::int64_t d_out, bool has_bias)
    : d_in_(d_in),
      modules_(modules),
      width_(d_out / modules),
      has_bias_(has_bias),
      d_(Parameter::make_matrix(joined_name(prefix, "d"), d_in, modules, Layout::rows,
                                {Initializer::Kind::normal, 0.5f}, {modules, d_in}, {1, modules})),
      e_(Parameter::make_matrix(joined_name(prefix, "e"), d_in, width_, Layout::panels,
                                glorot_uniform(d_in, width_))),
      bias_(Parameter::make_vector(joined_name(prefix, "bias"), d_out, kBias)) {}

void MultiplicativeDense::visit_parameters(const ParameterVisitor& visit) {
  visit(d_);
  visit(e_);
  if (has_bias_) visit(bias_);
}

Mat MultiplicativeDense::forward(const Mat& x) const {
  const Mat d = d_.matrix(), e = e_.matrix();
  Mat y(x.rows(), modules_ * width_);
  for (std::int64_t s = 0; s < modules_; ++s) {
    const Mat scaled = x.array().rowwise() * d.col(s).transpose().array();
    y.middleCols(s * width_, width_).noalias() = scaled * e;
  }
  if (has_bias_) add_bias(y, bias_);
  return y;
}

PartialSums MultiplicativeDense::sums(const StepContext& ctx, float* workspace) const {
  return {workspace, modules_ * width_, ctx.tokens};
}

void MultiplicativeDense::phase(int p, const StepContext& ctx, float* workspace, const float* x,
                                float* y) const {
  const PartialSums partial = sums(ctx, workspace);
  if (p == 0) {
    ctx.kernels.multiplicative(d_.view(), e_.view(), x, ctx.tokens, partial.start(ctx.thread),
                               ctx.share(d_in_, 8), {0, width_});
  } else {
    partial.reduce(ctx, bias(), y);
  }
}

std::int64_t MultiplicativeDense::workspace_floats(int tokens, int threads) const {
  return PartialSums::floats(modules_ * width_, tokens, threads);
}

void MultiplicativeDense::step_by_columns(const StepContext& ctx, const float* x, float* y) const {
  const Range columns = ctx.share(width_, kPanel);
  for (int t = 0; t < ctx.tokens; ++t) {
    for (std::int64_t s = 0; s < modules_; ++s) {
      float* to = y + (t * modules_ + s) * width_;
      if (has_bias_) {
        const float* from = bias_.vector() + s * width_;
        std::copy(from + columns.begin, from + columns.end, to + columns.begin);
      } else {
        std::fill(to + columns.begin, to + columns.end, 0.0f);
      }
    }
  }
  if (columns.size() > 0) {
    ctx.kernels.multiplicative(d_.view(), e_.view(), x, ctx.tokens, y, {0, d_in_}, columns);
  }
}

Cost MultiplicativeDense::step_cost(int tokens, WeightType type) const {
  const double in = double(d_in_), out = double(modules_ * width_), s = double(modules_);
  const double matrix = double(d_.count() + e_.count());
  return {phase_of("multiplicative", matrix, has_bias_ ? out : 0, (2 * in * out + s * in) * tokens,
                   type)};
}

}  // namespace scaling
