// Layer norm over the features of each position (paper 0.1).
#pragma once

#include <string>
#include <vector>

#include "models/layer.h"

namespace scaling {

/// y = scale * (x - mean) / sqrt(variance + 1e-6) + bias, biased variance.
struct Norm {
  Parameter scale, bias;

  explicit Norm(std::int64_t d);
  /// Names the two "prefix" + scale, bias.
  void visit_parameters(const std::string& prefix, const ParameterVisitor& visit);

  /// What backward needs beside x, and its buffers.
  struct Kept {
    std::vector<float> mean, inverse;  ///< of every row: mean, 1 / sqrt(variance + 1e-6)
    Mat scale_sums, bias_sums;         ///< gradients' partial sums, one row a group of rows of x
  };
  /// x, y: (positions, d).
  void forward(const Mat& x, Kept& kept, Mat& y) const;
  /// ADDS to dx, since x is a residual stream that goes on beside the norm. The gradients' sums
  /// have one order whatever the number of threads.
  void backward(const Mat& x, Kept& kept, const Mat& dy, Mat& dx) const;

  /// x, y: (ctx.tokens, d), by the calling thread alone.
  void step(const StepContext& ctx, const float* x, float* y) const {
    ctx.kernels.layer_norm(x, scale.vector(), bias.vector(), ctx.tokens, scale.cols, y);
  }
  /// Scale and bias are read, but tables of weights read leave them out (paper 7.6): they count
  /// as bytes and not as weights.
  Phase step_cost(int tokens) const {
    const double d = double(scale.cols);
    return {"norm", 0, 2 * d * 4, 8 * d * tokens};
  }
};

}  // namespace scaling
