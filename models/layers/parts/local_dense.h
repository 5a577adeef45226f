// Every module by a dense matrix of its own: a block-diagonal product (paper 2.3 with kernel
// 1).
#pragma once

#include <string>
#include <vector>

#include "models/layer.h"

namespace scaling {

/// y[s * M + o] = sum_i x[s * M + i] W[s, i, o] + b[s * M + o]. W is kept as (S * M, M), input row
/// by input row.
class LocalDense {
 public:
  static constexpr int kPhases = 1;

  /// bias_shape: the released code's logical shape of the bias if it is not (S, M).
  LocalDense(const std::string& weight, const std::string& bias, std::int64_t d,
             std::int64_t modules, const std::vector<std::int64_t>& bias_shape = {});
  void visit_parameters(const ParameterVisitor& visit);
  /// What backward needs beside x: nothing.
  struct Kept {};
  void forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const;
  /// accumulate: adds to dx instead of overwriting it.
  void backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                bool accumulate = false) const;
  void phase(int p, const StepContext& ctx, float* workspace, const float* x, float* y) const;
  std::int64_t workspace_floats(int tokens, int threads) const;
  Cost step_cost(int tokens, WeightType type) const;
  /// Floats that Kept holds for each position.
  double kept_floats() const { return 0; }

 private:
  std::int64_t modules_, width_;
  Parameter w_, b_;
};

}  // namespace scaling
