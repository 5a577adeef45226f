// The block-diagonal building block: modules are shared among the threads.
#include "models/layers/local_dense.h"

#include <algorithm>

#include "models/layers/counting.h"
#include "models/layers/partial_sums.h"
#include "models/layers/product.h"

namespace scaling {

LocalDense::LocalDense(const std::string& weight, const std::string& bias, std::int64_t d,
                       std::int64_t modules)
    : modules_(modules),
      width_(d / modules),
      w_(Parameter::make_matrix(weight, d, width_, Layout::rows, glorot_uniform(width_, width_),
                                {modules, width_, width_})),
      b_(Parameter::make_vector(bias, d, kBias, {modules, width_})) {}

void LocalDense::visit_parameters(const ParameterVisitor& visit) {
  visit(w_);
  visit(b_);
}

Mat LocalDense::forward(const Mat& x) const {
  const Mat w = w_.matrix();
  Mat y(x.rows(), x.cols());
  for (std::int64_t s = 0; s < modules_; ++s) {
    const std::int64_t at = s * width_;
    y.middleCols(at, width_).noalias() = x.middleCols(at, width_) * w.middleRows(at, width_);
  }
  add_bias(y, b_);
  return y;
}

void LocalDense::phase(int, const StepContext& ctx, float* workspace, const float* x,
                       float* y) const {
  // A module's values of all tokens stand side by side here, as the kernel wants them.
  const std::int64_t piece = ctx.tokens * width_, d = modules_ * width_;
  float* in = workspace + ctx.thread * 2 * padded(piece);
  float* out = in + padded(piece);
  const Range share = ctx.share(modules_);
  for (std::int64_t s = share.begin; s < share.end; ++s) {
    const std::int64_t at = s * width_;
    for (int t = 0; t < ctx.tokens; ++t) {
      std::copy_n(x + t * d + at, width_, in + t * width_);
      std::copy_n(b_.vector() + at, width_, out + t * width_);
    }
    WeightView w = w_.view();
    w.data = static_cast<const char*>(w.data) + at * width_ * bytes_of(w.type);
    w.rows = width_;
    ctx.kernels.dense_transposed(w, in, ctx.tokens, out, {0, width_});
    for (int t = 0; t < ctx.tokens; ++t) {
      std::copy_n(out + t * width_, width_, y + t * d + at);
    }
  }
}

std::int64_t LocalDense::workspace_floats(int tokens, int threads) const {
  return threads * 2 * padded(tokens * width_);
}

Cost LocalDense::step_cost(int tokens, WeightType type) const {
  const double matrix = double(w_.count());
  return {phase_of("local", matrix, double(b_.count()), 2 * matrix * tokens, type)};
}

}  // namespace scaling
