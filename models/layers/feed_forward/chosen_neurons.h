// A feed-forward of which every position computes one neuron a block, and no others.
#pragma once

#include <cstdint>

#include "models/layers/parts/selection.h"
#include "models/matrix.h"
#include "models/parameter.h"

namespace scaling {

/// With k the neuron that position t has of block b and h its activation:
/// h(t, b) = relu(w1(k) . x(t) + b1[k]), y(t) = sum over b of h(t, b) w2(k).
/// A position reads d_ff / N rows of each matrix, where a product with all and a mask would read
/// d_ff (paper 1.2): in training, calls that select hard cost a fraction of those that do not.
struct ChosenNeurons {
  Blocks shape;
  const std::int32_t* chosen;  ///< (positions, blocks), neuron within its block
  const Parameter& w1;         ///< (d_ff, d), Layout::rows, of either type
  const Parameter* b1;         ///< may be null
  const Parameter& w2;         ///< as w1

  /// h: (positions, blocks), y: (positions, d).
  void forward(const Mat& x, Mat& h, Mat& y) const;
  /// Adds to the gradients of w1, b1 and w2, which are f32; h: forward's, y: any. du becomes the
  /// gradient of what is in relu's brackets, 0 of neurons that are not active.
  void backward(const Mat& x, const Mat& h, const Mat& dy, Mat& du, Mat& dx) const;

 private:
  std::int64_t row_of(std::int64_t position, std::int64_t block) const {
    return block * shape.n + chosen[position * shape.blocks + block];
  }
  void add_rows(std::int64_t position, const Parameter& w, const float* factors, float* y) const;
  void add_gradients(const Mat& x, const Mat& h, const Mat& dy, const Mat& du, std::int64_t begin,
                     std::int64_t end) const;
};

}  // namespace scaling
