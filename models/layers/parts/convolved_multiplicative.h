// A multiplicative layer whose output feeds convolutions: the paper's combined QKV layer
// (paper 2.7, 2.8).
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "models/layers/parts/module_convolution.h"
#include "models/layers/parts/multiplicative_dense.h"

namespace scaling {

class ConvolvedMultiplicative {
 public:
  ConvolvedMultiplicative(const std::string& prefix, std::int64_t d, std::int64_t modules,
                          std::vector<ModuleConvolution> convolutions);
  void visit_parameters(const ParameterVisitor& visit);
  struct Kept {
    MultiplicativeDense::Kept multiplicative;
    ConvolutionBank::Kept bank;
    Mat m, dm;  // the multiplicative layer's output
  };
  /// One y a convolution, in the constructor's order.
  void forward(Pass& pass, const Mat& x, Kept& kept, std::initializer_list<Mat*> y) const;
  void backward(Pass& pass, const Mat& x, Kept& kept, std::initializer_list<const Mat*> dy,
                Mat& dx) const;
  ConvolutionRing make_ring(int tokens) const { return bank_.make_ring(tokens); }
  std::int64_t workspace_floats(int tokens, int threads) const;
  void reads_first(const StepContext& ctx, Ahead& ahead) const {
    multiplicative_.reads(ctx, bank_.by_columns(ctx.threads), ahead);
  }
  /// Up to, and with, the barrier after which outputs can be finished.
  void step(const StepContext& ctx, ConvolutionRing& ring, const float* x) const;
  /// The thread's share of output i; a barrier must follow the last one.
  void finish(const StepContext& ctx, const ConvolutionRing& ring, std::size_t i, float* y) const;
  /// The thread's share of an output, as finish leaves it, to another of the same shape.
  void copy_share(const StepContext& ctx, const float* from, float* to) const {
    bank_.copy_share(ctx, from, to);
  }
  Cost step_cost(int tokens, WeightType type) const;
  /// Floats that Kept holds for each position; the bank holds those of a few.
  double kept_floats() const { return 2 * double(d_); }

 private:
  std::int64_t d_;
  MultiplicativeDense multiplicative_;
  ConvolutionBank bank_;
};

}  // namespace scaling
