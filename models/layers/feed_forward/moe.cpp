// While decoding a chosen expert is a dense layer over a slice of neurons, whose rows the threads
// share; otherwise all experts are computed and masked.
#include "models/layers/feed_forward/moe.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

// The released code's.
constexpr double kBlockNoise = 0.7, kSwitchNoise = 0.1, kBlockHardProbability = 0.5;

struct MoeState : LayerState {
  explicit MoeState(int tokens) : experts(std::size_t(tokens)) {}
  void reorder(const StepContext&, const RowMoves&) override {}
  std::vector<std::int32_t> experts;       // of each token at the last step
  const std::int32_t* replayed = nullptr;  // the same, instead of the router's choice
};

}  // namespace

MoeFeedForward::MoeFeedForward(const ModelConfig& config, Kind kind)
    : MoeFeedForward(config, config.options<MoeKnobs>(), kind) {}

MoeFeedForward::MoeFeedForward(const ModelConfig& config, const MoeKnobs& knobs, Kind kind)
    : kind_(kind),
      d_(config.d_model),
      f_(config.d_ff),
      experts_(knobs.experts),
      width_(f_ / experts_),
      tau_(knobs.selection.selection_noise >= 0 ? knobs.selection.selection_noise
           : kind == Kind::block                ? kBlockNoise
                                                : kSwitchNoise),
      hard_probability_(knobs.selection.hard_probability >= 0 ? knobs.selection.hard_probability
                                                              : kBlockHardProbability),
      loss_{knobs.selection.selection_balance, knobs.selection.selection_entropy},
      router_(Parameter::make_matrix("router", experts_, d_, Layout::rows,
                                     glorot_uniform(d_, experts_), {d_, experts_}, {1, d_})),
      w1_(Parameter::make_matrix("w1", f_, d_, Layout::rows, glorot_uniform(d_, f_), {d_, f_},
                                 {1, d_})),
      w2_(Parameter::make_matrix("w2", f_, d_, Layout::rows, glorot_uniform(f_, d_))),
      b2_(Parameter::make_vector("b2", d_, kBias)) {
  router_.role = Role::selector;
  for (Parameter* p : {&w1_, &w2_}) p->role = Role::selected;
}

void MoeFeedForward::validate(const ModelConfig& config) {
  const auto knobs = config.options<MoeKnobs>();
  require_divides("d_ff", config.d_ff, "experts", knobs.experts);
  knobs.selection.validate();
}

void MoeFeedForward::visit_parameters(const ParameterVisitor& visit) {
  visit(router_);
  visit(w1_);
  visit(w2_);
  visit(b2_);
}

std::int64_t MoeFeedForward::workspace_floats(int tokens, int threads) const {
  return padded(tokens * experts_) + padded(f_) + PartialSums::floats(d_, tokens, threads);
}

std::unique_ptr<LayerState> MoeFeedForward::make_state(int tokens) const {
  return std::make_unique<MoeState>(tokens);
}

std::unique_ptr<Activations> MoeFeedForward::make_activations() const {
  return std::make_unique<Kept>();
}

Mat MoeFeedForward::router_logits(const Mat& x) const {
  Mat z;
  times_transposed(evaluation_pass(), x, router_, z);
  return z;
}

/// Ties to the lowest expert; scale is softmax's probability for Switch, else 1.
MoeFeedForward::Choice MoeFeedForward::choose(const float* logits) const {
  const std::int64_t best = std::max_element(logits, logits + experts_) - logits;
  if (kind_ == Kind::block) return {best, 1.0f};
  float sum = 0;
  for (std::int64_t e = 0; e < experts_; ++e) sum += std::exp(logits[e] - logits[best]);
  return {best, 1.0f / sum};
}

void MoeFeedForward::forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const {
  auto& own = static_cast<Kept&>(kept);
  kept.take_stream(pass);
  if (pass.recalls_decisions()) {
    SCALING_CHECK(std::int64_t(own.chosen.size()) == x.rows());
  } else {
    own.chosen.resize(std::size_t(x.rows()));
    own.is_hard = !pass.training || kind_ == Kind::switched ||
                  draw_hard_call(pass, own.stream, hard_probability_);
  }
  times_transposed(pass, x, router_, own.p);
  own.dz.resize(x.rows(), experts_);
  times_transposed(pass, x, w1_, own.h);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      select(pass, row, own);
      mask(own, row, own.h.data() + row * f_);
    }
  });
  if (pass.training) loss_.forward(pass, shape(), own.chosen, own.p, own.shares);
  times(pass, own.h, w2_, y);
  add_bias(y, b2_);
}

/// Makes of the row's logits a choice and probabilities.
void MoeFeedForward::select(const Pass& pass, std::int64_t row, Kept& own) const {
  float* z = own.p.data() + row * experts_;
  std::int32_t* chosen = own.chosen.data() + row;
  const bool is_noisy = pass.training && own.is_hard && tau_ > 0;
  if (!pass.recalls_decisions() && !is_noisy) choose_largest(shape(), z, chosen);
  subtract_largest(shape(), z);
  if (!pass.recalls_decisions() && is_noisy) {
    // dz is free until backward.
    float* scratch = own.dz.data() + row * experts_;
    choose_noisily(pass, own.stream, row, shape(), tau_, z, scratch, chosen);
  }
  softmax_of_blocks(shape(), z);
}

float MoeFeedForward::mask_of(const Kept& own, std::int64_t row, std::int64_t expert) const {
  if (own.is_hard && own.chosen[std::size_t(row)] != expert) return 0;
  return own.is_hard && kind_ == Kind::block ? 1.0f : own.p(row, expert);
}

void MoeFeedForward::mask(const Kept& own, std::int64_t row, float* h) const {
  for (std::int64_t e = 0; e < experts_; ++e) {
    Row expert(h + e * width_, width_);
    const float m = mask_of(own, row, e);
    if (m == 0) {
      expert.setZero();
    } else {
      expert = (expert * m).max(0.0f);
    }
  }
}

void MoeFeedForward::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                              Mat& dx) const {
  auto& own = static_cast<Kept&>(kept);
  bias_backward(dy, b2_);
  times_backward(pass, own.h, w2_, dy, own.dh);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      mask_backward(own, row, own.dh.data() + row * f_, own.dz.data() + row * experts_);
    }
  });
  loss_.backward(pass, shape(), own.p, own.shares, own.dz);
  times_transposed_backward(pass, x, w1_, own.dh, dx);
  times_transposed_backward(pass, x, router_, own.dz, dx, /*accumulate=*/true);
}

/// dh becomes du. With m the expert's mask, h = relu(u m) and g = dh [h > 0]: du = g m, and the
/// softmax's input gets dz = p s - p sum(p s), s the expert's sum of g u. Where g is not zero,
/// u = h / m: p s is the sum of g h, times p where m is one instead of p.
void MoeFeedForward::mask_backward(const Kept& own, std::int64_t row, float* dh, float* dz) const {
  const bool is_straight_through = own.is_hard && kind_ == Kind::block;
  const float* p = own.p.data() + row * experts_;
  for (std::int64_t e = 0; e < experts_; ++e) {
    const float m = mask_of(own, row, e);
    const float* h = own.h.data() + row * f_ + e * width_;
    float* g = dh + e * width_;
    const float signal = (ConstRow(g, width_) * ConstRow(h, width_)).sum();
    for (std::int64_t j = 0; j < width_; ++j) {
      const float du = g[j] * m;
      g[j] = h[j] > 0 ? du : 0.0f;
    }
    dz[e] = is_straight_through ? signal * p[e] : signal;
  }
  softmax_of_blocks_backward(shape(), p, dz);
}

double MoeFeedForward::selection_entropy(const Activations& kept) const {
  return mean_entropy(shape(), static_cast<const Kept&>(kept).p, /*are_probabilities=*/true);
}

void MoeFeedForward::apply_expert(const StepContext& ctx, const Choice& choice, const float* x,
                                  float* h, float* sum) const {
  Range rows = ctx.share(width_, 4);
  rows.begin += choice.expert * width_;
  rows.end += choice.expert * width_;
  ctx.kernels.dense(w1_.view(), nullptr, x, 1, h, rows, true);
  if (kind_ == Kind::switched) {
    for (std::int64_t j = rows.begin; j < rows.end; ++j) h[j] *= choice.scale;
  }
  ctx.kernels.dense_transposed(w2_.view(), h, 1, sum, rows);
}

void MoeFeedForward::step(const StepContext& ctx, LayerState* state, const float* x,
                          float* y) const {
  SCALING_CHECK(state != nullptr);
  auto& own = *static_cast<MoeState*>(state);
  float* logits = ctx.workspace;
  float* h = logits + padded(ctx.tokens * experts_);
  const PartialSums partial{h + padded(f_), d_, ctx.tokens};
  ctx.kernels.dense(router_.view(), nullptr, x, ctx.tokens, logits, ctx.share(experts_, 4), false);
  float* sum = partial.start(ctx.thread);
  ctx.sync();
  for (int t = 0; t < ctx.tokens; ++t) {
    Choice choice = choose(logits + t * experts_);
    if (own.replayed) choice.expert = own.replayed[t];
    if (ctx.thread == 0) own.experts[std::size_t(t)] = std::int32_t(choice.expert);
    apply_expert(ctx, choice, x + t * d_, h, sum + t * d_);
  }
  ctx.sync();
  partial.reduce(ctx, b2_.vector(), y);
  ctx.sync();
}

Cost MoeFeedForward::step_cost(int tokens, WeightType type) const {
  const double d = double(d_), experts = double(experts_), width = double(width_);
  const double slices = expected_union(experts, tokens);
  return {phase_of("router", d * experts, 0, 2 * d * experts * tokens, type),
          phase_of("expert", 2 * d * width * slices, d, 4 * d * width * tokens, type)};
}

/// All experts, and the router.
double MoeFeedForward::forward_flops() const { return 2 * double(d_) * double(2 * f_ + experts_); }

double MoeFeedForward::activation_floats() const { return double(2 * f_ + 2 * experts_ + 1); }

std::vector<std::int32_t> MoeFeedForward::chosen(const LayerState* state) const {
  return static_cast<const MoeState*>(state)->experts;
}

void MoeFeedForward::replay(LayerState* state, const std::int32_t* chosen) const {
  static_cast<MoeState*>(state)->replayed = chosen;
}

std::vector<std::int32_t> MoeFeedForward::touched_rows(const LayerState* state) const {
  std::vector<std::int32_t> experts = chosen(state);
  std::sort(experts.begin(), experts.end());
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  std::vector<std::int32_t> rows;
  for (const std::int64_t e : experts) {
    for (std::int64_t j = 0; j < width_; ++j) rows.push_back(std::int32_t(e * width_ + j));
  }
  return rows;
}

}  // namespace scaling
