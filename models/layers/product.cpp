// Weights of other types or layouts are converted a few rows at a time, so memory stays bounded.
#include "models/layers/product.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {
namespace {

using ConstMap = Eigen::Map<const Mat>;

ConstMap map_of(const Parameter& w) { return ConstMap(w.view().f32(), w.rows, w.cols); }

bool is_plain(const Parameter& w) { return w.type == WeightType::f32 && w.layout == Layout::rows; }

constexpr std::int64_t kRowsAtOnce = 256;

void rows_of(const Parameter& w, std::int64_t begin, std::int64_t n, Mat& out) {
  out.resize(n, w.cols);
  const WeightView view = w.view();
  const std::int64_t step = w.layout == Layout::rows ? w.cols : kPanel;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t col = 0; col < w.cols; col += step) {
      const std::int64_t at = element_offset(w.layout, w.rows, w.cols, begin + i, col);
      const std::int64_t count = std::min(step, w.cols - col);
      float* to = out.data() + i * w.cols + col;
      for (std::int64_t j = 0; j < count; ++j) {
        to[j] = w.type == WeightType::f32 ? view.f32()[at + j] : to_float(view.half()[at + j]);
      }
    }
  }
}

}  // namespace

Mat times_transposed(const Mat& x, const Parameter& w) {
  SCALING_CHECK(w.data != nullptr && x.cols() == w.cols);
  if (is_plain(w)) return x * map_of(w).transpose();
  Mat y(x.rows(), w.rows), part;
  for (std::int64_t row = 0; row < w.rows; row += kRowsAtOnce) {
    const std::int64_t n = std::min(kRowsAtOnce, w.rows - row);
    rows_of(w, row, n, part);
    y.middleCols(row, n).noalias() = x * part.transpose();
  }
  return y;
}

Mat times(const Mat& x, const Parameter& w) {
  SCALING_CHECK(w.data != nullptr && x.cols() == w.rows);
  if (is_plain(w)) return x * map_of(w);
  Mat y = Mat::Zero(x.rows(), w.cols), part;
  for (std::int64_t row = 0; row < w.rows; row += kRowsAtOnce) {
    const std::int64_t n = std::min(kRowsAtOnce, w.rows - row);
    rows_of(w, row, n, part);
    y.noalias() += x.middleCols(row, n) * part;
  }
  return y;
}

void add_bias(Mat& y, const Parameter& bias) {
  SCALING_CHECK(bias.data != nullptr && y.cols() == bias.cols);
  y.rowwise() += Eigen::Map<const Eigen::RowVectorXf>(bias.vector(), bias.cols);
}

}  // namespace scaling
