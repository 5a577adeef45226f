// Layer norm over the features of each position (reference 0.1).
#pragma once

#include <string>
#include <vector>

#include "models/matrix.h"
#include "models/parameter.h"

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
};

}  // namespace scaling
