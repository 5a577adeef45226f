// y = x W^T + b: the building block of every dense component.
#pragma once

#include <string>

#include "models/layer.h"

namespace scaling {

/// W (d_out, d_in), one row an output; b (d_out).
class DenseProduct {
 public:
  /// Phases between which a caller must put a barrier; see phase().
  static constexpr int kPhases = 1;

  DenseProduct(const std::string& weight, const std::string& bias, std::int64_t d_in,
               std::int64_t d_out);
  void visit_parameters(const ParameterVisitor& visit);
  /// What backward needs beside x: nothing.
  struct Kept {};
  void forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const;
  /// accumulate: adds to dx instead of overwriting it.
  void backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                bool accumulate = false) const;
  /// The calling thread's share of phase p of a step; y is complete after the barrier that follows
  /// the last.
  void phase(int p, const StepContext& ctx, float* workspace, const float* x, float* y) const;
  std::int64_t workspace_floats(int, int) const { return 0; }
  Cost step_cost(int tokens, WeightType type) const;
  /// Floats that Kept holds for each position.
  double kept_floats() const { return 0; }

 private:
  Parameter w_, b_;
};

}  // namespace scaling
