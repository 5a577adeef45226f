// After the small controller a thread owns blocks: it chooses, gathers and adds up without another
// barrier.
#include "models/layers/feed_forward_sparse.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/layers/counting.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

struct SparseState : LayerState {
  SparseState(int tokens_, std::int64_t blocks)
      : tokens(tokens_),
        selected(std::size_t(tokens_ * blocks)),
        list(selected.size()),
        activations(selected.size()) {}
  int tokens;
  std::vector<std::int32_t> selected;  // (tokens, blocks), neuron within its block
  std::vector<Selection> list;         // block-major
  std::vector<float> activations;      // of list
};

}  // namespace

SparseFeedForward::SparseFeedForward(const ModelConfig& config)
    : d_(config.d_model),
      f_(config.d_ff),
      n_(config.sparsity),
      blocks_(f_ / n_),
      rank_(config.controller_rank()),
      has_b1_(config.feed_forward_bias),
      c1_(Parameter::make_matrix("c1", rank_, d_, Layout::rows, glorot_uniform(d_, rank_),
                                 {d_, rank_}, {1, d_})),
      c2_(Parameter::make_matrix("c2", rank_, f_, Layout::panels, glorot_uniform(rank_, f_),
                                 {rank_, blocks_, n_})),
      controller_bias_(Parameter::make_vector("controller_bias", f_, kBias, {blocks_, n_})),
      w1_(Parameter::make_matrix("w1", f_, d_, Layout::rows, glorot_uniform(d_, f_),
                                 {d_, blocks_, n_}, {1, n_ * d_, d_})),
      b1_(Parameter::make_vector("b1", f_, kBias, {blocks_, n_})),
      w2_(Parameter::make_matrix("w2", f_, d_, Layout::rows, glorot_uniform(f_, d_),
                                 {n_, blocks_, d_}, {d_, n_ * d_, 1})),
      b2_(Parameter::make_vector("b2", d_, kBias)) {}

void SparseFeedForward::visit_parameters(const ParameterVisitor& visit) {
  visit(c1_);
  visit(c2_);
  visit(controller_bias_);
  visit(w1_);
  if (has_b1_) visit(b1_);
  visit(w2_);
  visit(b2_);
}

std::int64_t SparseFeedForward::workspace_floats(int tokens, int threads) const {
  return padded(tokens * rank_) + threads * padded(f_) + PartialSums::floats(d_, tokens, threads);
}

std::unique_ptr<LayerState> SparseFeedForward::make_state(int tokens) const {
  return std::make_unique<SparseState>(tokens, blocks_);
}

Mat SparseFeedForward::controller_logits(const Mat& x) const {
  Mat z = times(times_transposed(x, c1_), c2_);
  add_bias(z, controller_bias_);
  return z;
}

Mat SparseFeedForward::forward(const Mat& x) const {
  const Mat z = controller_logits(x);
  Mat h = times_transposed(x, w1_);
  if (has_b1_) add_bias(h, b1_);
  for (std::int64_t t = 0; t < h.rows(); ++t) {
    for (std::int64_t b = 0; b < blocks_; ++b) {
      std::int64_t best = 0;
      z.row(t).segment(b * n_, n_).maxCoeff(&best);
      const float chosen = std::max(h(t, b * n_ + best), 0.0f);
      h.row(t).segment(b * n_, n_).setZero();
      h(t, b * n_ + best) = chosen;
    }
  }
  Mat y = times(h, w2_);
  add_bias(y, b2_);
  return y;
}

/// Tokens inside blocks, in order of their rows, so that a row wanted twice is read once.
std::int64_t SparseFeedForward::list_selections(const StepContext& ctx,
                                                const std::int32_t* selected, Range blocks,
                                                Selection* list) const {
  std::int64_t n = 0;
  for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
    const std::int64_t first = n;
    for (int t = 0; t < ctx.tokens; ++t) {
      const auto row = std::int32_t(b * n_ + selected[t * blocks_ + b]);
      std::int64_t at = n++;
      for (; at > first && list[at - 1].row > row; --at) list[at] = list[at - 1];
      list[at] = {row, t};
    }
  }
  return n;
}

void SparseFeedForward::step(const StepContext& ctx, LayerState* state, const float* x,
                             float* y) const {
  SCALING_CHECK(state != nullptr);
  auto& own = *static_cast<SparseState*>(state);
  float* hidden = ctx.workspace;
  float* logits = hidden + padded(ctx.tokens * rank_);
  const PartialSums partial{logits + ctx.threads * padded(f_), d_, ctx.tokens};
  ctx.kernels.dense(c1_.view(), nullptr, x, ctx.tokens, hidden, ctx.share(rank_, 4), false);
  float* sum = partial.start(ctx.thread);
  ctx.sync();
  const Range blocks = ctx.share(blocks_);
  if (blocks.size() > 0) {
    ctx.kernels.controller(c2_.view(), controller_bias_.vector(), hidden, ctx.tokens, n_,
                           logits + ctx.thread * padded(f_), own.selected.data(), blocks);
    Selection* list = own.list.data() + blocks.begin * ctx.tokens;
    float* h = own.activations.data() + blocks.begin * ctx.tokens;
    const std::int64_t n = list_selections(ctx, own.selected.data(), blocks, list);
    ctx.kernels.gather_dot(w1_.view(), has_b1_ ? b1_.vector() : nullptr, list, n, x, h);
    ctx.kernels.gather_accumulate(w2_.view(), list, n, h, sum);
  }
  ctx.sync();
  partial.reduce(ctx, b2_.vector(), y);
  ctx.sync();
}

Cost SparseFeedForward::step_cost(int tokens, WeightType type) const {
  const double d = double(d_), f = double(f_), r = double(rank_), nb = double(blocks_);
  const double rows = nb * expected_union(double(n_), tokens);
  return {phase_of("controller_lowrank", d * r, 0, 2 * d * r * tokens, type),
          phase_of("controller_logits", r * f, f, 2 * r * f * tokens, type),
          phase_of("gather", 2 * d * rows, d + (has_b1_ ? rows : 0), 4 * d * nb * tokens, type)};
}

std::int32_t SparseFeedForward::chosen_row(const LayerState* state, int token,
                                           std::int64_t block) const {
  const auto& own = *static_cast<const SparseState*>(state);
  return std::int32_t(block * n_ + own.selected[std::size_t(token * blocks_ + block)]);
}

std::vector<std::int32_t> SparseFeedForward::touched_rows(const LayerState* state) const {
  std::vector<std::int32_t> rows;
  for (int t = 0; t < static_cast<const SparseState*>(state)->tokens; ++t) {
    for (std::int64_t b = 0; b < blocks_; ++b) rows.push_back(chosen_row(state, t, b));
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace scaling
