// The dense building block through Eigen (forward) and the kernel set (step).
#include "models/layers/parts/dense_product.h"

#include "models/layers/parts/counting.h"
#include "models/layers/parts/product.h"

namespace scaling {

DenseProduct::DenseProduct(const std::string& weight, const std::string& bias, std::int64_t d_in,
                           std::int64_t d_out)
    : w_(Parameter::make_dense(weight, d_out, d_in, glorot_uniform(d_in, d_out), {d_in, d_out},
                               {1, d_in})),
      b_(Parameter::make_vector(bias, d_out, kBias)) {}

void DenseProduct::visit_parameters(const ParameterVisitor& visit) {
  visit(w_);
  visit(b_);
}

void DenseProduct::forward(Pass& pass, const Mat& x, Kept&, Mat& y) const {
  times_transposed(pass, x, w_, y);
  add_bias(y, b_);
}

void DenseProduct::backward(Pass& pass, const Mat& x, Kept&, const Mat& dy, Mat& dx,
                            bool accumulate) const {
  bias_backward(dy, b_);
  times_transposed_backward(pass, x, w_, dy, dx, accumulate);
}

void DenseProduct::phase(int, const StepContext& ctx, float*, const float* x, float* y) const {
  ctx.for_rows(ctx.partition(w_.rows, w_.cols * bytes_of(w_.type)), [&](int, Range rows) {
    ctx.kernels.dense(w_.view(), b_.vector(), x, ctx.tokens, y, rows, false);
  });
}

Cost DenseProduct::step_cost(int tokens, WeightType type) const {
  const double matrix = double(w_.count());
  return {phase_of("dense", matrix, double(b_.count()), 2 * matrix * tokens, type)};
}

}  // namespace scaling
