// After the small controller a thread owns blocks: it chooses, gathers and adds up without another
// barrier.
#include "models/layers/feed_forward/sparse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

constexpr double kNoise = 0.1, kHardProbability = 0.3;  // the released code's
/// Streams of the hash, one a token id, away from those of passes.
constexpr std::uint64_t kHashStreams = std::uint64_t(1) << 62;

struct SparseState : LayerState {
  SparseState(int tokens_, std::int64_t blocks)
      : tokens(tokens_),
        selected(std::size_t(tokens_ * blocks)),
        list(selected.size()),
        activations(selected.size()) {}
  void reorder(const StepContext&, const RowMoves&) override {}
  int tokens;
  std::vector<std::int32_t> selected;      // (tokens, blocks), neuron within its block
  const std::int32_t* replayed = nullptr;  // the same, instead of the layer's own choice
  std::vector<Selection> list;             // block-major
  std::vector<float> activations;          // of list
};

Initializer scaled(Initializer init, double factor) {
  init.scale = float(double(init.scale) * factor);
  return init;
}

}  // namespace

void SparseFeedForward::validate(const ModelConfig& config) {
  const auto knobs = config.options<SparseKnobs>();
  require_divides("d_ff", config.d_ff, "sparsity", knobs.sparsity);
  require_positive("d_lowrank", knobs.rank(config));
  knobs.selection.validate();
}

void SparseFeedForward::shrink(ModelConfig& config) {
  set_field(config, "sparsity", 16);
  set_field(config, "d_lowrank", 8);
}

SparseFeedForward::SparseFeedForward(const ModelConfig& config)
    : SparseFeedForward(config, config.options<SparseKnobs>()) {}

SparseFeedForward::SparseFeedForward(const ModelConfig& config, const SparseKnobs& knobs)
    : d_(config.d_model),
      f_(config.d_ff),
      n_(knobs.sparsity),
      blocks_(f_ / n_),
      rank_(knobs.rank(config)),
      has_b1_(knobs.feed_forward_bias),
      selector_(knobs.selector),
      tau_(knobs.selection.selection_noise < 0 ? kNoise : knobs.selection.selection_noise),
      hard_probability_(knobs.selection.hard_probability < 0 ? kHardProbability
                                                             : knobs.selection.hard_probability),
      loss_{knobs.selection.selection_balance, knobs.selection.selection_entropy},
      seed_(config.seed),
      c1_(Parameter::make_matrix("c1", rank_, d_, Layout::rows, glorot_uniform(d_, rank_),
                                 {d_, rank_}, {1, d_})),
      c2_(Parameter::make_matrix("c2", rank_, f_, Layout::panels, glorot_uniform(rank_, f_),
                                 {rank_, blocks_, n_})),
      controller_bias_(Parameter::make_vector("controller_bias", f_, kBias, {blocks_, n_})),
      w1_(Parameter::make_matrix("w1", f_, d_, Layout::rows, glorot_uniform(d_, f_),
                                 {d_, blocks_, n_}, {1, n_ * d_, d_})),
      b1_(Parameter::make_vector("b1", f_, kBias, {blocks_, n_})),
      w2_(Parameter::make_matrix(
          "w2", f_, d_, Layout::rows,
          scaled(glorot_uniform(f_, d_), knobs.kernel_scaling ? std::sqrt(double(n_)) : 1.0),
          {n_, blocks_, d_}, {d_, n_ * d_, 1})),
      b2_(Parameter::make_vector("b2", d_, kBias)) {
  for (Parameter* p : {&c1_, &c2_, &controller_bias_}) {
    p->is_frozen = selector_ == Selector::random;
    p->role = Role::selector;
  }
  for (Parameter* p : {&w1_, &b1_, &w2_}) p->role = Role::selected;
}

void SparseFeedForward::visit_parameters(const ParameterVisitor& visit) {
  if (selector_ != Selector::hash) {
    visit(c1_);
    visit(c2_);
    visit(controller_bias_);
  }
  visit(w1_);
  if (has_b1_) visit(b1_);
  visit(w2_);
  visit(b2_);
}

std::int64_t SparseFeedForward::controller_floats(int tokens, int threads) const {
  return selector_ == Selector::hash ? 0 : padded(tokens * rank_) + threads * padded(f_);
}

std::int64_t SparseFeedForward::workspace_floats(int tokens, int threads) const {
  return controller_floats(tokens, threads) + PartialSums::floats(d_, tokens, threads);
}

std::unique_ptr<LayerState> SparseFeedForward::make_state(int tokens) const {
  return std::make_unique<SparseState>(tokens, blocks_);
}

std::unique_ptr<Activations> SparseFeedForward::make_activations() const {
  return std::make_unique<Kept>();
}

/// Without controller_bias.
void SparseFeedForward::compute_logits(const Pass& pass, const Mat& x, Mat& hidden, Mat& z) const {
  times_transposed(pass, x, c1_, hidden);
  times(pass, hidden, c2_, z);
}

Mat SparseFeedForward::controller_logits(const Mat& x) const {
  SCALING_CHECK(selector_ != Selector::hash);
  const Pass pass = evaluation_pass();
  Mat hidden, z;
  compute_logits(pass, x, hidden, z);
  add_bias(z, controller_bias_);
  return z;
}

void SparseFeedForward::forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const {
  auto& own = static_cast<Kept&>(kept);
  kept.take_stream(pass);
  own.has_all = pass.training && pass.all_neurons;
  if (own.has_all) return forward_all(pass, x, own, y);
  own.has_probabilities = pass.training && selector_ == Selector::learned;
  if (pass.recalls_decisions()) {
    SCALING_CHECK(std::int64_t(own.chosen.size()) == x.rows() * blocks_);
    SCALING_CHECK(own.is_hard || own.has_probabilities);
  } else {
    own.chosen.resize(std::size_t(x.rows() * blocks_));
    own.is_hard = !own.has_probabilities || draw_hard_call(pass, own.stream, hard_probability_);
  }
  if (selector_ == Selector::hash) {
    SCALING_CHECK(pass.recalls_decisions() || pass.ids != nullptr);
  } else {
    compute_logits(pass, x, own.hidden, own.p);
  }
  if (own.has_probabilities) {
    // What calls of the other kind take, too: then the first step takes all.
    for (Mat* m : {&own.dz, &own.h, &own.dh}) m->resize(x.rows(), f_);
    for (Mat* m : {&own.active, &own.dactive}) m->resize(x.rows(), blocks_);
  }
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) select(pass, row, own);
  });
  if (own.has_probabilities) loss_.forward(pass, shape(), own.chosen, own.p, own.shares);
  if (own.is_hard) {
    chosen_of(own).forward(x, own.active, y);
  } else {
    times_transposed(pass, x, w1_, own.h);
    parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        mask_soft(own.p.data() + row * f_, own.h.data() + row * f_);
      }
    });
    times(pass, own.h, w2_, y);
  }
  add_bias(y, b2_);
}

void SparseFeedForward::forward_all(const Pass& pass, const Mat& x, Kept& own, Mat& y) const {
  own.chosen.clear();
  own.has_probabilities = false;
  times_transposed(pass, x, w1_, own.h);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      Row h(own.h.data() + row * f_, f_);
      if (has_b1_) h += ConstRow(b1_.vector(), f_);
      h = h.max(0.0f);
    }
  });
  times(pass, own.h, w2_, y);
  add_bias(y, b2_);
}

/// Completes the row's logits and makes of them selections and, in training, probabilities.
void SparseFeedForward::select(const Pass& pass, std::int64_t row, Kept& own) const {
  std::int32_t* selected = own.chosen.data() + row * blocks_;
  if (selector_ == Selector::hash) {
    if (!pass.recalls_decisions()) select_by_hash(pass.ids[row], {0, blocks_}, selected);
    return;
  }
  float* z = own.p.data() + row * f_;
  Row(z, f_) += ConstRow(controller_bias_.vector(), f_);
  const bool is_noisy = own.has_probabilities && own.is_hard && tau_ > 0;
  if (!pass.recalls_decisions() && !is_noisy) choose_largest(shape(), z, selected);
  if (!own.has_probabilities) return;
  subtract_largest(shape(), z);
  if (!pass.recalls_decisions() && is_noisy) {
    // dz is free until backward.
    float* scratch = own.dz.data() + row * f_;
    choose_noisily(pass, own.stream, row, shape(), tau_, z, scratch, selected);
  }
  softmax_of_blocks(shape(), z);
}

void SparseFeedForward::select_by_hash(int id, Range blocks, std::int32_t* selected) const {
  const std::uint64_t stream = kHashStreams + std::uint64_t(std::uint32_t(id));
  std::array<std::uint32_t, 4> bits{};
  for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
    if (b == blocks.begin || b % 4 == 0) bits = random_bits(seed_, stream, std::uint64_t(b / 4));
    selected[b] = std::int32_t((bits[std::size_t(b % 4)] * std::uint64_t(n_)) >> 32);
  }
}

void SparseFeedForward::mask_soft(const float* p, float* h) const {
  Row row(h, f_);
  if (has_b1_) row += ConstRow(b1_.vector(), f_);
  row = (row * ConstRow(p, f_)).max(0.0f);
}

void SparseFeedForward::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                                 Mat& dx) const {
  auto& own = static_cast<Kept&>(kept);
  if (own.has_all) return backward_all(pass, x, own, dy, dx);
  const bool is_learned = selector_ == Selector::learned;
  SCALING_CHECK(own.has_probabilities == is_learned);
  bias_backward(dy, b2_);
  if (own.is_hard) {
    chosen_of(own).backward(x, own.active, dy, own.dactive, dx);
  } else {
    times_backward(pass, own.h, w2_, dy, own.dh);
  }
  if (is_learned) {
    parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        float* dz = own.dz.data() + row * f_;
        if (own.is_hard) {
          logits_backward(own, row, dz);
        } else {
          mask_soft_backward(own, row, own.dh.data() + row * f_, dz);
        }
      }
    });
  }
  if (!own.is_hard) {
    if (has_b1_) bias_backward(own.dh, b1_);
    times_transposed_backward(pass, x, w1_, own.dh, dx);
  }
  if (!is_learned) return;
  loss_.backward(pass, shape(), own.p, own.shares, own.dz);
  bias_backward(own.dz, controller_bias_);
  times_backward(pass, own.hidden, c2_, own.dz, own.dhidden);
  times_transposed_backward(pass, x, c1_, own.dhidden, dx, /*accumulate=*/true);
}

void SparseFeedForward::backward_all(Pass& pass, const Mat& x, Kept& own, const Mat& dy,
                                     Mat& dx) const {
  bias_backward(dy, b2_);
  times_backward(pass, own.h, w2_, dy, own.dh);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * f_, count = (end - begin) * f_;
    Row dh(own.dh.data() + first, count);
    dh = (ConstRow(own.h.data() + first, count) > 0.0f).select(dh, 0.0f);
  });
  if (has_b1_) bias_backward(own.dh, b1_);
  times_transposed_backward(pass, x, w1_, own.dh, dx);
}

// With m the mask, h = relu(u m) and g = dh [h > 0]: du = g m, and the softmax's input gets
// dz = p (g u) - p sum(p g u). Where g is not zero, u = h / m: p g u is g h p (hard, m = 1) or g h
// (soft, m = p), so that u need not be kept.

/// Of a hard call.
void SparseFeedForward::logits_backward(const Kept& own, std::int64_t row, float* dz) const {
  const std::int32_t* selected = own.chosen.data() + row * blocks_;
  const float* p = own.p.data() + row * f_;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const std::int64_t first = b * n_, k = first + selected[b];
    const float signal = p[k] * own.dactive(row, b) * own.active(row, b);
    for (std::int64_t j = first; j < first + n_; ++j) dz[j] = -signal * p[j];
    dz[k] += signal;
  }
}

/// dh becomes du.
void SparseFeedForward::mask_soft_backward(const Kept& own, std::int64_t row, float* dh,
                                           float* dz) const {
  const float* h = own.h.data() + row * f_;
  const float* p = own.p.data() + row * f_;
  for (std::int64_t j = 0; j < f_; ++j) {
    const float du = dh[j] * p[j];
    dz[j] = dh[j] * h[j];
    dh[j] = h[j] > 0 ? du : 0.0f;
  }
  softmax_of_blocks_backward(shape(), p, dz);
}

double SparseFeedForward::selection_entropy(const Activations& kept) const {
  if (selector_ != Selector::learned) return std::numeric_limits<double>::quiet_NaN();
  const auto& own = static_cast<const Kept&>(kept);
  return mean_entropy(shape(), own.p, own.has_probabilities);
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

/// The controller, whose second half is the longest stream before addresses depend on its answer.
void SparseFeedForward::reads_first(const StepContext& ctx, Ahead& ahead) const {
  if (selector_ == Selector::hash) return;
  const Range own = ctx.share(rank_, 4), blocks = ctx.share(blocks_);
  ahead.add_rows(c1_.view(), own.begin, own.end);
  ahead.add_panels(c2_.view(), 0, rank_, blocks.begin * n_, blocks.end * n_);
}

void SparseFeedForward::step(const StepContext& ctx, LayerState* state, const float* x,
                             float* y) const {
  SCALING_CHECK(state != nullptr);
  auto& own = *static_cast<SparseState*>(state);
  const PartialSums partial{ctx.workspace + controller_floats(ctx.tokens, ctx.threads), d_,
                            ctx.tokens};
  float* sum = partial.start(ctx.thread);
  const Range blocks = ctx.share(blocks_);
  if (selector_ == Selector::hash) {
    SCALING_CHECK(ctx.ids != nullptr);
    for (int t = 0; t < ctx.tokens; ++t) {
      select_by_hash(ctx.ids[t], blocks, own.selected.data() + t * blocks_);
    }
  } else {
    float* hidden = ctx.workspace;
    float* logits = hidden + padded(ctx.tokens * rank_) + ctx.thread * padded(f_);
    ctx.kernels.dense(c1_.view(), nullptr, x, ctx.tokens, hidden, ctx.share(rank_, 4), false);
    ctx.sync();
    if (blocks.size() > 0) {
      ctx.kernels.controller(c2_.view(), controller_bias_.vector(), hidden, ctx.tokens, n_, logits,
                             own.selected.data(), blocks);
    }
  }
  if (blocks.size() > 0) {
    for (int t = 0; own.replayed && t < ctx.tokens; ++t) {
      const std::int64_t first = t * blocks_ + blocks.begin;
      std::copy_n(own.replayed + first, blocks.size(), own.selected.data() + first);
    }
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
  Cost cost;
  if (selector_ != Selector::hash) {
    cost = {phase_of("controller_lowrank", d * r, 0, 2 * d * r * tokens, type),
            phase_of("controller_logits", r * f, f, 2 * r * f * tokens, type)};
  }
  cost.push_back(
      phase_of("gather", 2 * d * rows, d + (has_b1_ ? rows : 0), 4 * d * nb * tokens, type));
  return cost;
}

/// The controller, and all neurons in soft calls.
double SparseFeedForward::forward_flops() const {
  const double controller = selector_ == Selector::hash ? 0 : double(rank_ * (d_ + f_));
  const double hard = selector_ == Selector::learned ? hard_probability_ : 1;
  return 2 * (2 * double(d_ * f_) * (1 - hard + hard / double(n_)) + controller);
}

/// Of calls of either kind.
double SparseFeedForward::activation_floats() const {
  const std::int64_t logits = selector_ == Selector::hash ? 0 : f_ + rank_;
  const std::int64_t soft = selector_ == Selector::learned ? 3 * f_ + rank_ : 0;
  return double(3 * blocks_ + logits + soft);
}

std::vector<std::int32_t> SparseFeedForward::chosen(const LayerState* state) const {
  return static_cast<const SparseState*>(state)->selected;
}

void SparseFeedForward::replay(LayerState* state, const std::int32_t* chosen) const {
  static_cast<SparseState*>(state)->replayed = chosen;
}

std::vector<std::int32_t> SparseFeedForward::touched_rows(const LayerState* state) const {
  std::vector<std::int32_t> rows = chosen(state);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] += std::int32_t(std::int64_t(i) % blocks_ * n_);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace scaling
