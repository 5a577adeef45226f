// No matrix stands between positions, so all products are of whole batches; only a scan of a few
// operations a unit goes position by position, each unit of each example on its own.
#include "models/layers/recurrence/sru.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

constexpr float kSkipScale = 1.7320508f;  // sqrt(3): of the input's way past the cell

struct SruState : LayerState {
  explicit SruState(std::int64_t floats) : cell(std::size_t(floats), 0.0f) {}
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    const std::int64_t n = std::int64_t(cell.size()) / ctx.tokens;
    moves.apply(cell.data(), n, ctx.share(n));
  }
  std::vector<float> cell;  // (tokens, n)
};

struct SruActivations : Activations {
  DenseProduct::Kept in, out;
  Mat u, cell, h;  // (positions, n)
  Mat gates;       // (positions, 3 n): r and f after their sigmoid, z
  Mat dh, du;      // (positions, n)
  Mat dgates;      // (positions, 3 n), before the sigmoids
  Mat carried;     // (examples, n): gradient that reaches a cell from the position after it
};

using Values = Eigen::Map<Eigen::ArrayXf>;
using Constants = Eigen::Map<const Eigen::ArrayXf>;

/// Some units of a row whose groups of n floats start at multiples of n.
struct Units {
  std::int64_t n, first, count;
  Values of(Mat& m, std::int64_t row, std::int64_t group = 0) const {
    return Values(m.data() + row * m.cols() + group * n + first, count);
  }
  Constants of(const Mat& m, std::int64_t row, std::int64_t group = 0) const {
    return Constants(m.data() + row * m.cols() + group * n + first, count);
  }
};

/// fn(example, units) until every unit of every example has been in one call, from all threads.
template <class Fn>
void for_units(std::int64_t examples, std::int64_t n, Fn&& fn) {
  parallel_for(examples * n, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t example = begin / n, first = begin % n;
      const std::int64_t count = std::min(end - begin, n - first);
      fn(example, Units{n, first, count});
      begin += count;
    }
  });
}

void scan(std::int64_t length, std::int64_t example, const Units& units, SruActivations& own) {
  for (std::int64_t t = 0; t < length; ++t) {
    const std::int64_t row = example * length + t;
    const Constants z = units.of(std::as_const(own.gates), row, 2);
    const Constants u = units.of(std::as_const(own.u), row);
    Values r = units.of(own.gates, row, 0), f = units.of(own.gates, row, 1);
    Values c = units.of(own.cell, row), h = units.of(own.h, row);
    r = 1.0f / (1.0f + (-r).exp());
    f = 1.0f / (1.0f + (-f).exp());
    if (t == 0) {
      c = (1.0f - f) * z;
    } else {
      c = f * units.of(std::as_const(own.cell), row - 1) + (1.0f - f) * z;
    }
    h = r * c + (1.0f - r) * kSkipScale * u;
  }
}

void scan_back(std::int64_t length, std::int64_t example, const Units& units, SruActivations& own) {
  Values carried = units.of(own.carried, example);
  carried.setZero();
  for (std::int64_t t = length - 1; t >= 0; --t) {
    const std::int64_t row = example * length + t;
    const Constants r = units.of(std::as_const(own.gates), row, 0);
    const Constants f = units.of(std::as_const(own.gates), row, 1);
    const Constants z = units.of(std::as_const(own.gates), row, 2);
    const Constants u = units.of(std::as_const(own.u), row);
    const Constants c = units.of(std::as_const(own.cell), row);
    const Constants dh = units.of(std::as_const(own.dh), row);
    Values df = units.of(own.dgates, row, 1);
    units.of(own.du, row) = dh * (1.0f - r) * kSkipScale;
    units.of(own.dgates, row, 0) = dh * (c - kSkipScale * u) * r * (1.0f - r);
    carried += dh * r;  // now of this position's cell
    if (t == 0) {
      df = -carried * z * f * (1.0f - f);
    } else {
      df = carried * (units.of(std::as_const(own.cell), row - 1) - z) * f * (1.0f - f);
    }
    units.of(own.dgates, row, 2) = carried * (1.0f - f);
    carried *= f;
  }
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

SruRecurrence::SruRecurrence(const ModelConfig& config)
    : n_(config.options<SruKnobs>().recurrence_width),
      in_("in", "in_bias", config.d_model, n_),
      out_("out", "out_bias", n_, config.d_model),
      gates_(Parameter::make_matrix("gates", 3 * n_, n_, Layout::rows, glorot_uniform(n_, 3 * n_),
                                    {n_, 3 * n_}, {1, n_})),
      gates_bias_(Parameter::make_vector("gates_bias", 3 * n_, kBias)) {}

void SruRecurrence::validate(const ModelConfig& config) {
  require_positive("recurrence_width", config.options<SruKnobs>().recurrence_width);
}

void SruRecurrence::visit_parameters(const ParameterVisitor& visit) {
  in_.visit_parameters(visit);
  visit(gates_);
  visit(gates_bias_);
  out_.visit_parameters(visit);
}

std::int64_t SruRecurrence::workspace_floats(int tokens, int) const {
  return 2 * padded(tokens * n_) + padded(tokens * 3 * n_);
}

std::unique_ptr<LayerState> SruRecurrence::make_state(int tokens) const {
  return std::make_unique<SruState>(tokens * n_);
}

std::unique_ptr<Activations> SruRecurrence::make_activations() const {
  return std::make_unique<SruActivations>();
}

void SruRecurrence::forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const {
  auto& own = static_cast<SruActivations&>(kept);
  in_.forward(pass, x, own.in, own.u);
  times_transposed(pass, own.u, gates_, own.gates);
  add_bias(own.gates, gates_bias_);
  own.cell.resize(x.rows(), n_);
  own.h.resize(x.rows(), n_);
  const std::int64_t length = pass.length(x);
  for_units(pass.examples, n_,
            [&](std::int64_t example, const Units& units) { scan(length, example, units, own); });
  out_.forward(pass, own.h, own.out, y);
}

void SruRecurrence::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                             Mat& dx) const {
  auto& own = static_cast<SruActivations&>(kept);
  SCALING_CHECK(own.cell.rows() == x.rows());
  out_.backward(pass, own.h, own.out, dy, own.dh);
  own.du.resize(x.rows(), n_);
  own.dgates.resize(x.rows(), 3 * n_);
  own.carried.resize(pass.examples, n_);
  const std::int64_t length = pass.length(x);
  for_units(pass.examples, n_, [&](std::int64_t example, const Units& units) {
    scan_back(length, example, units, own);
  });
  bias_backward(own.dgates, gates_bias_);
  times_transposed_backward(pass, own.u, gates_, own.dgates, own.du, /*accumulate=*/true);
  in_.backward(pass, x, own.in, own.du, dx);
}

void SruRecurrence::step(const StepContext& ctx, LayerState* state, const float* x,
                         float* y) const {
  SCALING_CHECK(state != nullptr);
  float* cell = static_cast<SruState*>(state)->cell.data();
  float* u = ctx.workspace;
  float* h = u + padded(ctx.tokens * n_);
  float* gates = h + padded(ctx.tokens * n_);
  in_.phase(0, ctx, nullptr, x, u);
  ctx.sync();
  // All three gates of a thread's units are its own, so no barrier stands before the cell.
  const Range units = ctx.share(n_, 16);
  for (std::int64_t group = 0; group < 3 && units.size() > 0; ++group) {
    ctx.kernels.dense(gates_.view(), gates_bias_.vector(), u, ctx.tokens, gates,
                      {group * n_ + units.begin, group * n_ + units.end}, false);
  }
  for (int token = 0; token < ctx.tokens; ++token) {
    const float* gate = gates + token * 3 * n_;
    for (std::int64_t i = units.begin; i < units.end; ++i) {
      const std::int64_t at = token * n_ + i;
      const float r = sigmoid(gate[i]), f = sigmoid(gate[n_ + i]);
      cell[at] = f * cell[at] + (1 - f) * gate[2 * n_ + i];
      h[at] = r * cell[at] + (1 - r) * kSkipScale * u[at];
    }
  }
  ctx.sync();
  out_.phase(0, ctx, nullptr, h, y);
  ctx.sync();
}

Cost SruRecurrence::step_cost(int tokens, WeightType type) const {
  const double n = double(n_);
  Cost cost = repeated(in_.step_cost(tokens, type), 1, "in");
  cost.push_back(phase_of("gates", 3 * n * n, 3 * n, 6 * n * n * tokens, type));
  append(cost, repeated(out_.step_cost(tokens, type), 1, "out"));
  return cost;
}

}  // namespace scaling
