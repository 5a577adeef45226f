// Weights of other types or layouts (evaluation of a model that decodes) are converted a few rows
// at a time, so memory stays bounded.
#include "models/layers/parts/product.h"

#include <algorithm>
#include <array>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "kernels/random.h"

namespace scaling {
namespace {

bool is_plain(const Parameter& w) { return w.type == WeightType::f32 && w.layout == Layout::rows; }

constexpr std::int64_t kRowsAtOnce = 256;

/// Columns whose sums are made together, what stays in the first cache level; rows are added up in
/// groups, whose sums then meet.
constexpr std::int64_t kSumsAtOnce = 1024, kRowsOfGroup = 64;

void rows_of(const Parameter& w, std::int64_t begin, std::int64_t n, Mat& out) {
  out.resize(n, w.cols);
  const WeightView view = w.view();
  const std::int64_t step = run_length(w.layout, w.cols);
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

void times_transposed(const Pass& pass, const Mat& x, const Parameter& w, Mat& y) {
  SCALING_CHECK(w.data != nullptr && x.cols() == w.cols);
  y.resize(x.rows(), w.rows);
  if (is_plain(w)) {
    pass.gemm.product(false, true, x.rows(), w.rows, w.cols, x.data(), w.cols, w.view().f32(),
                      w.cols, 0, y.data(), w.rows);
    return;
  }
  Mat part;
  for (std::int64_t row = 0; row < w.rows; row += kRowsAtOnce) {
    const std::int64_t n = std::min(kRowsAtOnce, w.rows - row);
    rows_of(w, row, n, part);
    y.middleCols(row, n).noalias() = x * part.transpose();
  }
}

void times_transposed_backward(const Pass& pass, const Mat& x, const Parameter& w, const Mat& dy,
                               Mat& dx, bool accumulate) {
  SCALING_CHECK(is_plain(w) && dy.cols() == w.rows && dy.rows() == x.rows());
  if (w.gradient) {
    pass.gemm.product(true, false, w.rows, w.cols, x.rows(), dy.data(), w.rows, x.data(), w.cols, 1,
                      w.gradient, w.cols);
  }
  if (!accumulate) dx.resize(x.rows(), w.cols);
  pass.gemm.product(false, false, x.rows(), w.cols, w.rows, dy.data(), w.rows, w.view().f32(),
                    w.cols, accumulate ? 1.0f : 0.0f, dx.data(), w.cols);
}

void times(const Pass& pass, const Mat& x, const Parameter& w, Mat& y) {
  SCALING_CHECK(w.data != nullptr && x.cols() == w.rows);
  y.resize(x.rows(), w.cols);
  if (is_plain(w)) {
    pass.gemm.product(false, false, x.rows(), w.cols, w.rows, x.data(), w.rows, w.view().f32(),
                      w.cols, 0, y.data(), w.cols);
    return;
  }
  y.setZero();
  Mat part;
  for (std::int64_t row = 0; row < w.rows; row += kRowsAtOnce) {
    const std::int64_t n = std::min(kRowsAtOnce, w.rows - row);
    rows_of(w, row, n, part);
    y.noalias() += x.middleCols(row, n) * part;
  }
}

void times_backward(const Pass& pass, const Mat& x, const Parameter& w, const Mat& dy, Mat& dx,
                    bool accumulate) {
  SCALING_CHECK(is_plain(w) && dy.cols() == w.cols && dy.rows() == x.rows());
  if (w.gradient) {
    pass.gemm.product(true, false, w.rows, w.cols, x.rows(), x.data(), w.rows, dy.data(), w.cols, 1,
                      w.gradient, w.cols);
  }
  if (!accumulate) dx.resize(x.rows(), w.rows);
  pass.gemm.product(false, true, x.rows(), w.rows, w.cols, dy.data(), w.cols, w.view().f32(),
                    w.cols, accumulate ? 1.0f : 0.0f, dx.data(), w.rows);
}

void add_bias(Mat& y, const Parameter& bias) {
  SCALING_CHECK(bias.data != nullptr && y.cols() == bias.cols);
  const Eigen::Map<const Eigen::RowVectorXf> values(bias.vector(), bias.cols);
  parallel_for(y.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) y.row(row) += values;
  });
}

void bias_backward(const Mat& dy, const Parameter& bias) {
  if (!bias.gradient) return;
  SCALING_CHECK(dy.cols() == bias.cols);
  add_column_sums(dy.data(), dy.rows(), dy.cols(), bias.gradient);
}

void add_column_sums(const float* values, std::int64_t rows, std::int64_t cols, float* sums) {
  // Columns, not rows, are shared among the threads, so every sum has one order. Each thread goes
  // along the rows as they are stored: a column at a time would touch a new page at every row.
  parallel_for(cols, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, std::size_t(kSumsAtOnce)> group{};
    for (std::int64_t first = begin; first < end; first += kSumsAtOnce) {
      const std::int64_t n = std::min(kSumsAtOnce, end - first);
      for (std::int64_t top = 0; top < rows; top += kRowsOfGroup) {
        const std::int64_t bottom = std::min(rows, top + kRowsOfGroup);
        std::fill_n(group.data(), n, 0.0f);
        for (std::int64_t row = top; row < bottom; ++row) {
          const float* from = values + row * cols + first;
          for (std::int64_t j = 0; j < n; ++j) group[std::size_t(j)] += from[j];
        }
        for (std::int64_t j = 0; j < n; ++j) sums[first + j] += group[std::size_t(j)];
      }
    }
  });
}

void drop(const Pass& pass, std::uint64_t stream, std::int64_t first, std::int64_t n,
          float* values) {
  if (!pass.drops()) return;
  const float keep = pass.kept_scale();
  // An element is dropped if its 32 bits are below the rate.
  const auto threshold = std::uint32_t(double(pass.dropout) * 4294967296.0);
  constexpr std::int64_t kCounters = 64;  // drawn together
  std::uint32_t bits[4 * kCounters];
  for (std::int64_t i = 0; i < n;) {
    const std::int64_t at = first + i, skip = at % 4;
    const std::int64_t take = std::min(4 * kCounters - skip, n - i);
    many_random_bits(pass.seed, stream, std::uint64_t(at / 4), (skip + take + 3) / 4, bits);
    for (std::int64_t j = 0; j < take; ++j) {
      values[i + j] *= bits[skip + j] < threshold ? 0.0f : keep;
    }
    i += take;
  }
}

void apply_dropout(const Pass& pass, std::uint64_t stream, Mat& y, DropoutMask masks) {
  if (!pass.drops()) return;
  parallel_for(y.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      drop(pass, stream, pass.mask_begin(y, masks, row), y.cols(), y.data() + row * y.cols());
    }
  });
}

}  // namespace scaling
