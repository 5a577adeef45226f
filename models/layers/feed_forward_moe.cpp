// A chosen expert is a dense layer over a slice of neurons, whose rows the threads share.
#include "models/layers/feed_forward_moe.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "models/layers/counting.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

struct MoeState : LayerState {
  explicit MoeState(int tokens) : experts(std::size_t(tokens)) {}
  std::vector<std::int64_t> experts;  // chosen by each token at the last step
};

}  // namespace

MoeFeedForward::MoeFeedForward(const ModelConfig& config, Kind kind)
    : kind_(kind),
      d_(config.d_model),
      f_(config.d_ff),
      experts_(config.experts),
      width_(f_ / experts_),
      router_(Parameter::make_matrix("router", experts_, d_, Layout::rows,
                                     glorot_uniform(d_, experts_), {d_, experts_}, {1, d_})),
      w1_(Parameter::make_matrix("w1", f_, d_, Layout::rows, glorot_uniform(d_, f_), {d_, f_}, {1, d_})),
      w2_(Parameter::make_matrix("w2", f_, d_, Layout::rows, glorot_uniform(f_, d_))),
      b2_(Parameter::make_vector("b2", d_, kBias)) {}

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

Mat MoeFeedForward::router_logits(const Mat& x) const { return times_transposed(x, router_); }

/// Ties to the lowest expert; scale is softmax's probability for Switch, else 1.
MoeFeedForward::Choice MoeFeedForward::choose(const float* logits) const {
  const std::int64_t best = std::max_element(logits, logits + experts_) - logits;
  if (kind_ == Kind::block) return {best, 1.0f};
  float sum = 0;
  for (std::int64_t e = 0; e < experts_; ++e) sum += std::exp(logits[e] - logits[best]);
  return {best, 1.0f / sum};
}

Mat MoeFeedForward::forward(const Mat& x) const {
  const Mat z = router_logits(x);
  Mat h = times_transposed(x, w1_);
  for (std::int64_t t = 0; t < h.rows(); ++t) {
    const Choice choice = choose(z.data() + t * experts_);
    for (std::int64_t j = 0; j < f_; ++j) {
      const float mask = j / width_ == choice.expert ? choice.scale : 0.0f;
      h(t, j) = std::max(h(t, j) * mask, 0.0f);
    }
  }
  Mat y = times(h, w2_);
  add_bias(y, b2_);
  return y;
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
    const Choice choice = choose(logits + t * experts_);
    if (ctx.thread == 0) own.experts[std::size_t(t)] = choice.expert;
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

std::int64_t MoeFeedForward::chosen_expert(const LayerState* state, int token) const {
  return static_cast<const MoeState*>(state)->experts[std::size_t(token)];
}

std::vector<std::int32_t> MoeFeedForward::touched_rows(const LayerState* state) const {
  std::vector<std::int64_t> experts = static_cast<const MoeState*>(state)->experts;
  std::sort(experts.begin(), experts.end());
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  std::vector<std::int32_t> rows;
  for (const std::int64_t e : experts) {
    for (std::int64_t j = 0; j < width_; ++j) rows.push_back(std::int32_t(e * width_ + j));
  }
  return rows;
}

}  // namespace scaling
