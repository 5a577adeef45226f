// The paper's multiplicative dense layer (paper 2.5): bytes of a dense layer divided by S,
// its FLOPs kept.
#pragma once

#include <string>

#include "models/layer.h"
#include "models/layers/parts/partial_sums.h"

namespace scaling {

/// y[s * M + m] = sum_i x[i] D[i, s] E[i, m] + bias, M = d_out / S. Parameters prefix.d (d_in, S),
/// prefix.e (d_in, M), prefix.bias (d_out) unless left out.
class MultiplicativeDense {
 public:
  static constexpr int kPhases = 2;

  MultiplicativeDense(const std::string& prefix, std::int64_t d_in, std::int64_t modules,
                      std::int64_t d_out, bool has_bias = true);
  void visit_parameters(const ParameterVisitor& visit);
  /// Columns of W[i, s * M + m] = D[i, s] E[i, m] and their gradient, a few at a time.
  struct Kept {
    Mat w, dw;
  };
  void forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const;
  /// accumulate: adds to dx instead of overwriting it.
  void backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                bool accumulate = false) const;

  /// Phase 0: the thread's share of input rows into its partial sum; phase 1: its share of columns
  /// of y.
  void phase(int p, const StepContext& ctx, float* workspace, const float* x, float* y,
             Ahead* ahead = nullptr) const;
  std::int64_t workspace_floats(int tokens, int threads) const;
  /// Where phase 0 leaves the sums, for callers that lay the result out otherwise.
  PartialSums sums(const StepContext& ctx, float* workspace) const;
  const float* bias() const { return has_bias_ ? bias_.vector() : nullptr; }

  /// Without partial sums: y for the thread's share of the columns m of every module, over all
  /// inputs. For d_out far above d_in. One phase.
  void step_by_columns(const StepContext& ctx, const float* x, float* y,
                       Ahead* ahead = nullptr) const;
  /// What phase 0, or step_by_columns, reads of the weights.
  void reads(const StepContext& ctx, bool by_columns, Ahead& ahead) const;

  Cost step_cost(int tokens, WeightType type) const;
  /// Floats that Kept holds for each position.
  double kept_floats() const { return 0; }

 private:
  /// Columns of W that exist together.
  std::int64_t columns_at_once() const;
  void compose(const float* d, const float* e, Range columns, Mat& w) const;
  /// Adds what dw, the gradient of these columns, means for D and E to their gradients.
  void decompose(const float* d, const float* e, Range columns, const Mat& dw) const;

  std::int64_t d_in_, modules_, width_;
  bool has_bias_;
  Parameter d_, e_, bias_;
};

}  // namespace scaling
