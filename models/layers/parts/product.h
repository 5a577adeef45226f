// Products with a stored weight, forward and backward, copying no f32 row-major matrix.
#pragma once

#include <string>

#include "models/matrix.h"
#include "models/parameter.h"
#include "models/pass.h"

namespace scaling {

/// y = x w^T: x (positions, in), w (out, in), y (positions, out).
void times_transposed(const Pass& pass, const Mat& x, const Parameter& w, Mat& y);
/// Adds dy^T x to w's gradient (unless it has none); dx = dy w, or dx += dy w.
void times_transposed_backward(const Pass& pass, const Mat& x, const Parameter& w, const Mat& dy,
                               Mat& dx, bool accumulate = false);

/// y = x w: x (positions, in), w (in, out), y (positions, out).
void times(const Pass& pass, const Mat& x, const Parameter& w, Mat& y);
/// Adds x^T dy to w's gradient (unless it has none); dx = dy w^T, or dx += dy w^T.
void times_backward(const Pass& pass, const Mat& x, const Parameter& w, const Mat& dy, Mat& dx,
                    bool accumulate = false);

/// Adds a bias vector to every row.
void add_bias(Mat& y, const Parameter& bias);
/// Adds the column sums of dy to the bias's gradient (unless it has none).
void bias_backward(const Mat& dy, const Parameter& bias);
/// sums[j] += column j of values (rows, cols), the rows in one order whatever the number of
/// threads.
void add_column_sums(const float* values, std::int64_t rows, std::int64_t cols, float* sums);

/// values[i] *= keep / (1 - rate) for n values, keep being drawn for element first + i of the
/// stream: the same stream draws the same mask, so backward calls this on the gradient. Nothing in
/// evaluation or at rate 0. By the calling thread.
void drop(const Pass& pass, std::uint64_t stream, std::int64_t first, std::int64_t n,
          float* values);
/// drop() of every row of y, by all threads.
void apply_dropout(const Pass& pass, std::uint64_t stream, Mat& y,
                   DropoutMask masks = DropoutMask::per_position);

/// "prefix.name", or "name" if there is no prefix.
inline std::string joined_name(const std::string& prefix, const char* name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// Biases start as N(0, 1e-12) (paper 0.1).
inline constexpr Initializer kBias = {Initializer::Kind::normal, 1e-6f};

}  // namespace scaling
