// What the branches share. In place of a sum and a dropout one after the other, each row is dropped
// in pieces that stay in the first cache level.
#include "models/transformer/branch.h"

#include <algorithm>
#include <array>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/product.h"

namespace scaling {

void prefix_names(Layer& layer, const std::string& prefix) {
  layer.visit_parameters([&](Parameter& p) { p.name = prefix + p.name; });
}

std::string branch_name(const std::string& prefix, const char* what) {
  return prefix.substr(0, prefix.rfind('.')) + ", " + what;
}

void add_to(Mat& to, const Mat& more, float factor) {
  SCALING_CHECK(to.rows() == more.rows() && to.cols() == more.cols());
  parallel_for(to.rows(), [&](std::int64_t begin, std::int64_t end) {
    to.middleRows(begin, end - begin) += factor * more.middleRows(begin, end - begin);
  });
}

void add_branch(Pass& pass, Activations* dropout, DropoutMask masks, const Mat& y, const Mat& base,
                float sign, Mat& out) {
  if (dropout) dropout->take_stream(pass);
  const std::int64_t d = y.cols();
  out.resize(y.rows(), d);
  parallel_for(y.rows(), [&](std::int64_t begin, std::int64_t end) {
    std::array<float, 256> piece{};
    for (std::int64_t row = begin; row < end; ++row) {
      if (!dropout || !pass.drops()) {
        out.row(row) = base.row(row) + sign * y.row(row);
        continue;
      }
      const std::int64_t mask = pass.mask_begin(y, masks, row);
      for (std::int64_t first = 0; first < d; first += std::int64_t(piece.size())) {
        const std::int64_t n = std::min(std::int64_t(piece.size()), d - first);
        const std::int64_t at = row * d + first;
        std::copy_n(y.data() + at, n, piece.data());
        drop(pass, dropout->stream, mask + first, n, piece.data());
        const float* from = base.data() + at;
        float* to = out.data() + at;
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] + sign * piece[std::size_t(i)];
      }
    }
  });
}

const Mat& branch_gradient(const Pass& pass, const Activations* dropout, DropoutMask masks,
                           const Mat& dout, Mat& buffer) {
  if (!dropout || !pass.drops()) return dout;
  const std::int64_t d = dout.cols();
  buffer.resize(dout.rows(), d);
  parallel_for(dout.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      buffer.row(row) = dout.row(row);
      drop(pass, dropout->stream, pass.mask_begin(dout, masks, row), d, buffer.data() + row * d);
    }
  });
  return buffer;
}

void add_step(const StepContext& ctx, const float* y, std::int64_t d, float* acc) {
  float* __restrict to = acc;
  const float* __restrict from = y;
  for (std::int64_t i = 0; i < ctx.tokens * d; ++i) to[i] += from[i];
}

void set_cost(PerPart<Cost>& costs, BlockPart part, const Cost& cost) {
  costs[std::size_t(part)] = repeated(cost, 1, name_of(part));
}

}  // namespace scaling
