// Evaluation's matrix products with a stored weight, copying no f32 row-major matrix.
#pragma once

#include <string>

#include "models/matrix.h"
#include "models/parameter.h"

namespace scaling {

/// x (positions, in) times the transpose of w (out, in) -> (positions, out).
Mat times_transposed(const Mat& x, const Parameter& w);

/// x (positions, in) times w (in, out) -> (positions, out).
Mat times(const Mat& x, const Parameter& w);

/// Adds a bias vector to every row.
void add_bias(Mat& y, const Parameter& bias);

/// "prefix.name", or "name" if there is no prefix.
inline std::string joined_name(const std::string& prefix, const char* name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// Biases start as N(0, 1e-12) (reference 0.1).
inline constexpr Initializer kBias = {Initializer::Kind::normal, 1e-6f};

}  // namespace scaling
