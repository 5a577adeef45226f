// The multiplicative building block. Over many positions it is one product with
// W[i, s * M + m] = D[i, s] E[i, m]: as many FLOPs as (S x d_in) times E, and scaling W costs d_in
// * d_out products where scaling x costs S * d_in a position.
#include "models/layers/parts/multiplicative_dense.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/plain_weight.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Values = Eigen::Map<const Eigen::ArrayXf>;

/// A piece of W that stays in the second cache level between being written and multiplied.
constexpr std::int64_t kFloatsAtOnce = std::int64_t(1) << 19;
constexpr std::int64_t kLeastColumns = 64;

/// fn(s, m, n, at) for each run of columns s * width + m, ..., + n - 1 of one module within
/// `columns`; it starts `at` columns after the first.
template <class Fn>
void for_each_run(Range columns, std::int64_t width, Fn&& fn) {
  for (std::int64_t c = columns.begin; c < columns.end;) {
    const std::int64_t m = c % width, n = std::min(width - m, columns.end - c);
    fn(c / width, m, n, c - columns.begin);
    c += n;
  }
}

}  // namespace

MultiplicativeDense::MultiplicativeDense(const std::string& prefix, std::int64_t d_in,
                                         std::int64_t modules, std::int64_t d_out, bool has_bias)
    : d_in_(d_in),
      modules_(modules),
      width_(d_out / modules),
      has_bias_(has_bias),
      d_(Parameter::make_matrix(joined_name(prefix, "d"), d_in, modules, Layout::rows,
                                {Initializer::Kind::normal, 0.5f}, {modules, d_in}, {1, modules})),
      e_(Parameter::make_matrix(joined_name(prefix, "e"), d_in, width_, Layout::panels,
                                glorot_uniform(d_in, width_))),
      bias_(Parameter::make_vector(joined_name(prefix, "bias"), d_out, kBias)) {}

void MultiplicativeDense::visit_parameters(const ParameterVisitor& visit) {
  visit(d_);
  visit(e_);
  if (has_bias_) visit(bias_);
}

std::int64_t MultiplicativeDense::columns_at_once() const {
  const std::int64_t all = modules_ * width_;
  const std::int64_t limit = std::max(kLeastColumns, kFloatsAtOnce / d_in_);
  const std::int64_t parts = (all + limit - 1) / limit;
  return std::min(all, padded((all + parts - 1) / parts));
}

void MultiplicativeDense::compose(const float* d, const float* e, Range columns, Mat& w) const {
  w.resize(d_in_, columns_at_once());
  parallel_for(d_in_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for_each_run(columns, width_,
                   [&](std::int64_t s, std::int64_t m, std::int64_t n, std::int64_t at) {
                     Eigen::Map<Eigen::ArrayXf>(w.row(i).data() + at, n) =
                         Values(e + i * width_ + m, n) * d[i * modules_ + s];
                   });
    }
  });
}

void MultiplicativeDense::decompose(const float* d, const float* e, Range columns,
                                    const Mat& dw) const {
  // Rows belong to one thread each, so every sum has one order.
  parallel_for(d_in_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for_each_run(
          columns, width_, [&](std::int64_t s, std::int64_t m, std::int64_t n, std::int64_t at) {
            const Values dw_run(dw.row(i).data() + at, n);
            if (d_.gradient) {
              d_.gradient[i * modules_ + s] += (Values(e + i * width_ + m, n) * dw_run).sum();
            }
            if (e_.gradient) {
              Eigen::Map<Eigen::ArrayXf>(e_.gradient + i * width_ + m, n) +=
                  dw_run * d[i * modules_ + s];
            }
          });
    }
  });
}

void MultiplicativeDense::forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const {
  SCALING_CHECK(x.cols() == d_in_);
  const PlainWeight d(d_), e(e_);
  const std::int64_t out = modules_ * width_, step = columns_at_once();
  y.resize(x.rows(), out);
  for (std::int64_t first = 0; first < out; first += step) {
    const Range columns{first, std::min(first + step, out)};
    compose(d.data(), e.data(), columns, kept.w);
    pass.gemm.product(false, false, x.rows(), columns.size(), d_in_, x.data(), d_in_, kept.w.data(),
                      step, 0, y.data() + first, out);
  }
  if (has_bias_) add_bias(y, bias_);
}

void MultiplicativeDense::backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                                   bool accumulate) const {
  const PlainWeight d(d_), e(e_);
  const std::int64_t out = modules_ * width_, step = columns_at_once();
  SCALING_CHECK(x.cols() == d_in_ && dy.cols() == out && dy.rows() == x.rows());
  if (has_bias_) bias_backward(dy, bias_);
  if (!accumulate) dx.resize(x.rows(), d_in_);
  for (std::int64_t first = 0; first < out; first += step) {
    const Range columns{first, std::min(first + step, out)};
    compose(d.data(), e.data(), columns, kept.w);
    pass.gemm.product(false, true, x.rows(), d_in_, columns.size(), dy.data() + first, out,
                      kept.w.data(), step, accumulate || first > 0 ? 1.0f : 0.0f, dx.data(), d_in_);
    if (!d_.gradient && !e_.gradient) continue;
    kept.dw.resize(d_in_, step);
    pass.gemm.product(true, false, d_in_, columns.size(), x.rows(), x.data(), d_in_,
                      dy.data() + first, out, 0, kept.dw.data(), step);
    decompose(d.data(), e.data(), columns, kept.dw);
  }
}

PartialSums MultiplicativeDense::sums(const StepContext& ctx, float* workspace) const {
  return {workspace, modules_ * width_, ctx.tokens};
}

void MultiplicativeDense::phase(int p, const StepContext& ctx, float* workspace, const float* x,
                                float* y, Ahead* ahead) const {
  const PartialSums partial = sums(ctx, workspace);
  if (p == 0) {
    ctx.kernels.multiplicative(d_.view(), e_.view(), x, ctx.tokens, partial.start(ctx.thread),
                               ctx.share(d_in_, 8), {0, width_}, ahead);
  } else {
    partial.reduce(ctx, bias(), y);
  }
}

std::int64_t MultiplicativeDense::workspace_floats(int tokens, int threads) const {
  return PartialSums::floats(modules_ * width_, tokens, threads);
}

void MultiplicativeDense::reads(const StepContext& ctx, bool by_columns, Ahead& ahead) const {
  const Range all{0, d_in_}, inputs = by_columns ? all : ctx.share(d_in_, 8);
  const Range columns = by_columns ? ctx.share(width_, kPanel) : Range{0, width_};
  ahead.add_rows(d_.view(), inputs.begin, inputs.end);
  ahead.add_panels(e_.view(), inputs.begin, inputs.end, columns.begin, columns.end);
}

void MultiplicativeDense::step_by_columns(const StepContext& ctx, const float* x, float* y,
                                          Ahead* ahead) const {
  const Range columns = ctx.share(width_, kPanel);
  for (int t = 0; t < ctx.tokens; ++t) {
    for (std::int64_t s = 0; s < modules_; ++s) {
      float* to = y + (t * modules_ + s) * width_;
      if (has_bias_) {
        const float* from = bias_.vector() + s * width_;
        std::copy(from + columns.begin, from + columns.end, to + columns.begin);
      } else {
        std::fill(to + columns.begin, to + columns.end, 0.0f);
      }
    }
  }
  if (columns.size() > 0) {
    ctx.kernels.multiplicative(d_.view(), e_.view(), x, ctx.tokens, y, {0, d_in_}, columns, ahead);
  }
}

Cost MultiplicativeDense::step_cost(int tokens, WeightType type) const {
  const double in = double(d_in_), out = double(modules_ * width_), s = double(modules_);
  const double matrix = double(d_.count() + e_.count());
  return {phase_of("multiplicative", matrix, has_bias_ ? out : 0, (2 * in * out + s * in) * tokens,
                   type)};
}

}  // namespace scaling
