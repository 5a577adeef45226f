// A multiplicative layer, then a dense matrix in every module (paper 2.6).
#pragma once

#include <string>

#include "models/layers/parts/local_dense.h"
#include "models/layers/parts/multiplicative_dense.h"

namespace scaling {

/// y[s, o] = sum_x K[s, x, o] sum_i x[i] D[i, s] E[i, x] + bias. Parameters prefix.k, prefix.d,
/// prefix.e, prefix.bias.
class MultModularDense {
 public:
  static constexpr int kPhases = 3;

  MultModularDense(const std::string& prefix, std::int64_t d, std::int64_t modules);
  void visit_parameters(const ParameterVisitor& visit);
  struct Kept {
    MultiplicativeDense::Kept multiplicative;
    LocalDense::Kept local;
    Mat between, dbetween;  // (positions, d)
  };
  void forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const;
  /// accumulate: adds to dx instead of overwriting it.
  void backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                bool accumulate = false) const;
  void phase(int p, const StepContext& ctx, float* workspace, const float* x, float* y) const;
  std::int64_t workspace_floats(int tokens, int threads) const;
  Cost step_cost(int tokens, WeightType type) const;
  /// Floats that Kept holds for each position.
  double kept_floats() const { return 2 * double(d_); }

 private:
  std::int64_t d_;
  MultiplicativeDense multiplicative_;
  LocalDense local_;
};

}  // namespace scaling
