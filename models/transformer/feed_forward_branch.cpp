// The feed-forward layer and, beside it, the recurrence: both read x before either adds.
#include "models/transformer/feed_forward_branch.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/counting.h"

namespace scaling {

struct FeedForwardBranch::Kept : BranchActivations {
  void for_each_decisions(const std::function<void(Decisions&)>& fn) override {
    fn(*layer);
    fn(dropout);
    if (recurrence) fn(*recurrence);
  }
  Norm::Kept norm, recurrence_norm;
  Mat normed, recurrence_normed;
  std::unique_ptr<Activations> layer, recurrence;
  Activations dropout;
};

struct FeedForwardBranch::State : BranchState {
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    if (layer) layer->reorder(ctx, moves);
    if (recurrence) recurrence->reorder(ctx, moves);
  }
  int tokens = 1;
  std::unique_ptr<LayerState> layer, recurrence;
};

FeedForwardBranch::FeedForwardBranch(const ModelConfig& config, const std::string& prefix)
    : norm_(config.d_model),
      recurrence_norm_(config.d_model),
      layer_(make_feed_forward(config)),
      recurrence_(make_recurrence(config)),
      prefix_(prefix),
      name_(branch_name(prefix, "feed-forward")),
      d_(config.d_model),
      masks_(config.is_reversible() ? DropoutMask::per_example : DropoutMask::per_position) {
  prefix_names(*layer_, prefix + "feed_forward.");
  if (recurrence_) prefix_names(*recurrence_, prefix + "recurrence.");
}

void FeedForwardBranch::visit_parameters(const ParameterVisitor& visit) {
  norm_.visit_parameters(prefix_ + "feed_forward_norm.", visit);
  layer_->visit_parameters(visit);
  if (!recurrence_) return;
  recurrence_norm_.visit_parameters(prefix_ + "recurrence_norm.", visit);
  recurrence_->visit_parameters(visit);
}

// -- a batch --------------------------------------------------------------------------------------

std::unique_ptr<BranchActivations> FeedForwardBranch::make_activations() const {
  auto kept = std::make_unique<Kept>();
  kept->layer = layer_->make_activations();
  if (recurrence_) kept->recurrence = recurrence_->make_activations();
  return kept;
}

void FeedForwardBranch::forward(Pass& pass, const BlockInputs&, const Mat& x, const Mat& base,
                                float sign, BranchActivations& kept, BranchScratch& scratch,
                                Mat& out) const {
  SCALING_CHECK(&x != &out);
  Kept& own = static_cast<Kept&>(kept);
  norm_.forward(x, own.norm, own.normed);
  layer_->forward(pass, own.normed, *own.layer, scratch.y);
  add_branch(pass, &own.dropout, masks_, scratch.y, base, sign, out);
  if (!recurrence_) return;
  recurrence_norm_.forward(x, own.recurrence_norm, own.recurrence_normed);
  recurrence_->forward(pass, own.recurrence_normed, *own.recurrence, scratch.y);
  add_to(out, scratch.y, sign);
}

void FeedForwardBranch::backward(Pass& pass, const BlockInputs&, const Mat& x,
                                 BranchActivations& kept, BranchScratch& scratch, const Mat& dout,
                                 Mat& dx, Mat* /*dencoded*/) const {
  Kept& own = static_cast<Kept&>(kept);
  const Mat& dy = branch_gradient(pass, &own.dropout, masks_, dout, scratch.dy);
  layer_->backward(pass, own.normed, *own.layer, dy, scratch.dnormed);
  // dout may be dx: both layers read it before either norm adds to it.
  if (recurrence_) {
    recurrence_->backward(pass, own.recurrence_normed, *own.recurrence, dout, scratch.drecurrent);
  }
  norm_.backward(x, own.norm, scratch.dnormed, dx);
  if (recurrence_) recurrence_norm_.backward(x, own.recurrence_norm, scratch.drecurrent, dx);
}

double FeedForwardBranch::selection_entropy(const BranchActivations& kept) const {
  return layer_->selection_entropy(*static_cast<const Kept&>(kept).layer);
}

double FeedForwardBranch::forward_flops(const TrainSizes& sizes) const {
  return double(sizes.length) *
         (layer_->forward_flops() + (recurrence_ ? recurrence_->forward_flops() : 0));
}

double FeedForwardBranch::activation_floats(const TrainSizes& sizes) const {
  // The layer's normed input; and the result.
  const double d = double(d_);
  return double(sizes.length) * (2 * d + layer_->activation_floats() +
                                 (recurrence_ ? d + recurrence_->activation_floats() : 0));
}

// -- a decode -------------------------------------------------------------------------------------

std::unique_ptr<BranchState> FeedForwardBranch::make_state(const DecodeSizes& sizes) const {
  auto state = std::make_unique<State>();
  state->tokens = sizes.tokens;
  restart(*state);
  return state;
}

void FeedForwardBranch::restart(BranchState& state) const {
  State& own = static_cast<State&>(state);
  own.layer = layer_->make_state(own.tokens);
  if (recurrence_) own.recurrence = recurrence_->make_state(own.tokens);
}

std::int64_t FeedForwardBranch::workspace_floats(const DecodeSizes& sizes, int threads) const {
  return std::max(layer_->workspace_floats(sizes.tokens, threads),
                  recurrence_ ? recurrence_->workspace_floats(sizes.tokens, threads) : 0);
}

void FeedForwardBranch::step(const StepContext& ctx, BranchState& state, const float* x, float* acc,
                             const StepBuffers& b) const {
  State& own = static_cast<State&>(state);
  norm_.step(ctx, x, b.normed);
  ctx.enter(BlockPart::feed_forward);
  layer_->step(ctx, own.layer.get(), b.normed, b.y);
  ctx.enter(BlockPart::layer_norms);
  if (recurrence_) {
    // Reads the stream to which y may be added, so y waits; o is free again.
    recurrence_norm_.step(ctx, x, b.normed);
    ctx.enter(BlockPart::recurrence);
    recurrence_->step(ctx, own.recurrence.get(), b.normed, b.o);
    ctx.enter(BlockPart::layer_norms);
    add_step(ctx, b.o, d_, acc);
  }
  add_step(ctx, b.y, d_, acc);
}

PerPart<Cost> FeedForwardBranch::step_cost(const DecodeSizes& sizes) const {
  PerPart<Cost> costs;
  const Phase norm = norm_.step_cost(sizes.tokens);
  set_cost(costs, BlockPart::layer_norms, recurrence_ ? Cost{norm, norm} : Cost{norm});
  set_cost(costs, BlockPart::feed_forward, layer_->step_cost(sizes.tokens, sizes.type));
  if (recurrence_) {
    set_cost(costs, BlockPart::recurrence, recurrence_->step_cost(sizes.tokens, sizes.type));
  }
  return costs;
}

std::vector<std::int32_t> FeedForwardBranch::touched_rows(const BranchState& state) const {
  return layer_->touched_rows(static_cast<const State&>(state).layer.get());
}

std::vector<std::int32_t> FeedForwardBranch::chosen(const BranchState& state) const {
  return layer_->chosen(static_cast<const State&>(state).layer.get());
}

void FeedForwardBranch::replay(BranchState& state, const std::int32_t* chosen) const {
  layer_->replay(static_cast<State&>(state).layer.get(), chosen);
}

}  // namespace scaling
