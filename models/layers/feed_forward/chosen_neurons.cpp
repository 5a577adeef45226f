// Outputs position by position, gradients of weights block by block: so each has one thread, and
// sums one order whatever the number of threads.
#include "models/layers/feed_forward/chosen_neurons.h"

#include <algorithm>
#include <array>

#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

namespace scaling {
namespace {

using Vec = Eigen::Map<Eigen::VectorXf>;
using ConstVec = Eigen::Map<const Eigen::VectorXf>;

/// Rows that a kernel is given at once.
constexpr std::int64_t kTogether = 64;
/// Positions whose inputs and gradients stay in the second-level cache while all blocks meet them.
constexpr std::int64_t kPositions = 256;

ConstVec weights_of(const Parameter& w, std::int64_t row) {
  return {w.view().f32() + row * w.cols, w.cols};
}

}  // namespace

/// y += sum over blocks of factors times rows of w; nothing is read where a factor is 0.
void ChosenNeurons::add_rows(std::int64_t position, const Parameter& w, const float* factors,
                             float* y) const {
  std::array<Selection, std::size_t(kTogether)> list;
  std::array<float, std::size_t(kTogether)> of_list;
  for (std::int64_t b = 0; b < shape.blocks;) {
    std::size_t n = 0;
    for (; b < shape.blocks && n < list.size(); ++b) {
      if (factors[b] == 0) continue;
      list[n] = {std::int32_t(row_of(position, b)), 0};
      of_list[n++] = factors[b];
    }
    simd_kernels().gather_accumulate(w.view(), list.data(), std::int64_t(n), of_list.data(), y);
  }
}

void ChosenNeurons::forward(const Mat& x, Mat& h, Mat& y) const {
  SCALING_CHECK(w1.layout == Layout::rows && w2.layout == Layout::rows && x.cols() == w1.cols);
  h.resize(x.rows(), shape.blocks);
  y.resize(x.rows(), w2.cols);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    std::array<Selection, std::size_t(kTogether)> list;
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t b = 0; b < shape.blocks; b += kTogether) {
        const std::int64_t n = std::min(kTogether, shape.blocks - b);
        for (std::int64_t i = 0; i < n; ++i) {
          list[std::size_t(i)] = {std::int32_t(row_of(t, b + i)), 0};
        }
        simd_kernels().gather_dot(w1.view(), b1 ? b1->vector() : nullptr, list.data(), n,
                                  x.data() + t * x.cols(), h.data() + t * shape.blocks + b);
      }
      float* to = y.data() + t * y.cols();
      std::fill_n(to, y.cols(), 0.0f);
      add_rows(t, w2, h.data() + t * shape.blocks, to);
    }
  });
}

/// Of the blocks [begin, end).
void ChosenNeurons::add_gradients(const Mat& x, const Mat& h, const Mat& dy, const Mat& du,
                                  std::int64_t begin, std::int64_t end) const {
  for (std::int64_t first = 0; first < x.rows(); first += kPositions) {
    const std::int64_t last = std::min(x.rows(), first + kPositions);
    for (std::int64_t b = begin; b < end; ++b) {
      for (std::int64_t t = first; t < last; ++t) {
        if (h(t, b) == 0) continue;
        const std::int64_t k = row_of(t, b);
        if (w1.gradient) {
          Vec(w1.gradient + k * w1.cols, w1.cols) +=
              du(t, b) * ConstVec(x.data() + t * x.cols(), x.cols());
        }
        if (w2.gradient) {
          Vec(w2.gradient + k * w2.cols, w2.cols) +=
              h(t, b) * ConstVec(dy.data() + t * dy.cols(), dy.cols());
        }
        if (b1 && b1->gradient) b1->gradient[k] += du(t, b);
      }
    }
  }
}

void ChosenNeurons::backward(const Mat& x, const Mat& h, const Mat& dy, Mat& du, Mat& dx) const {
  SCALING_CHECK(w1.type == WeightType::f32 && w2.type == WeightType::f32);
  SCALING_CHECK(h.rows() == x.rows() && dy.rows() == x.rows() && dy.cols() == w2.cols);
  du.resize(x.rows(), shape.blocks);
  dx.resize(x.rows(), w1.cols);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const ConstVec of_y(dy.data() + t * dy.cols(), dy.cols());
      for (std::int64_t b = 0; b < shape.blocks; ++b) {
        du(t, b) = h(t, b) > 0 ? of_y.dot(weights_of(w2, row_of(t, b))) : 0.0f;
      }
      float* to = dx.data() + t * dx.cols();
      std::fill_n(to, dx.cols(), 0.0f);
      add_rows(t, w1, du.data() + t * shape.blocks, to);
    }
  });
  parallel_for(shape.blocks, [&](std::int64_t begin, std::int64_t end) {
    add_gradients(x, h, dy, du, begin, end);
  });
}

}  // namespace scaling
