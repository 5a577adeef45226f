// The block-diagonal building block: modules are shared among the threads.
#include "models/layers/parts/local_dense.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/plain_weight.h"
#include "models/layers/parts/product.h"

namespace scaling {

LocalDense::LocalDense(const std::string& weight, const std::string& bias, std::int64_t d,
                       std::int64_t modules, const std::vector<std::int64_t>& bias_shape)
    : modules_(modules),
      width_(d / modules),
      w_(Parameter::make_matrix(weight, d, width_, Layout::rows, glorot_uniform(width_, width_),
                                {modules, width_, width_})),
      b_(Parameter::make_vector(
          bias, d, kBias,
          bias_shape.empty() ? std::vector<std::int64_t>{modules, width_} : bias_shape)) {}

void LocalDense::visit_parameters(const ParameterVisitor& visit) {
  visit(w_);
  visit(b_);
}

void LocalDense::forward(Pass& pass, const Mat& x, Kept&, Mat& y) const {
  const PlainWeight w(w_);
  const std::int64_t d = modules_ * width_;
  SCALING_CHECK(x.cols() == d);
  y.resize(x.rows(), d);
  for (std::int64_t at = 0; at < d; at += width_) {
    pass.gemm.product(false, false, x.rows(), width_, width_, x.data() + at, d,
                      w.data() + at * width_, width_, 0, y.data() + at, d);
  }
  add_bias(y, b_);
}

void LocalDense::backward(Pass& pass, const Mat& x, Kept&, const Mat& dy, Mat& dx,
                          bool accumulate) const {
  const PlainWeight w(w_);
  const std::int64_t d = modules_ * width_;
  SCALING_CHECK(x.cols() == d && dy.cols() == d && dy.rows() == x.rows());
  bias_backward(dy, b_);
  if (!accumulate) dx.resize(x.rows(), d);
  for (std::int64_t at = 0; at < d; at += width_) {
    if (w_.gradient) {
      pass.gemm.product(true, false, width_, width_, x.rows(), x.data() + at, d, dy.data() + at, d,
                        1, w_.gradient + at * width_, width_);
    }
    pass.gemm.product(false, true, x.rows(), width_, width_, dy.data() + at, d,
                      w.data() + at * width_, width_, accumulate ? 1.0f : 0.0f, dx.data() + at, d);
  }
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
