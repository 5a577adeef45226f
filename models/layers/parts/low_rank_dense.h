// y = (x A + a) B + b, two dense products with few values between (paper 2.2).
#pragma once

#include <string>

#include "models/layers/parts/dense_product.h"

namespace scaling {

/// Parameters prefix.a (r, d_in), prefix.a_bias, prefix.b (d_out, r), prefix.b_bias.
class LowRankDense {
 public:
  static constexpr int kPhases = 2;

  LowRankDense(const std::string& prefix, std::int64_t d_in, std::int64_t rank, std::int64_t d_out);
  void visit_parameters(const ParameterVisitor& visit);
  struct Kept {
    DenseProduct::Kept a, b;
    Mat between, dbetween;  // (positions, rank)
  };
  void forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const;
  /// accumulate: adds to dx instead of overwriting it.
  void backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                bool accumulate = false) const;
  void phase(int p, const StepContext& ctx, float* workspace, const float* x, float* y) const;
  std::int64_t workspace_floats(int tokens, int threads) const;
  Cost step_cost(int tokens, WeightType type) const;
  /// Floats that Kept holds for each position.
  double kept_floats() const { return 2 * double(rank_); }

 private:
  std::int64_t rank_;
  DenseProduct a_, b_;
};

}  // namespace scaling
