// Norm, queries, keys and values, attention, output.
#include "models/transformer/self_attention_branch.h"

#include <algorithm>

#include "models/layers/catalog.h"
#include "models/layers/parts/counting.h"

namespace scaling {
namespace {

/// "projection" of the first, "projection2" of the second.
std::string numbered(int number) { return number == 1 ? "" : std::to_string(number); }

}  // namespace

struct SelfAttentionBranch::Kept : AttentionBranchActivations {
  Projection::QKV qkv;
};

struct SelfAttentionBranch::State : BranchState {
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    cache->reorder(ctx, moves);
    if (projection) projection->reorder(ctx, moves);
  }
  int tokens = 1;
  std::unique_ptr<AttentionCache> cache;
  std::unique_ptr<LayerState> projection;
};

SelfAttentionBranch::SelfAttentionBranch(const ModelConfig& config, Where where, int number,
                                         const std::string& prefix)
    : norm_(config.d_model),
      projection_(make_projection(config, where)),
      attention_(make_self_attention(config, where)),
      name_(branch_name(prefix, "self-attention")),
      norm_name_(prefix + "attention" + numbered(number) + "_norm."),
      d_(config.d_model),
      d_head_(config.d_head()),
      drops_output_(!config.is_reversible()) {
  const std::string of_projection = prefix + "projection" + numbered(number) + ".";
  prefix_names(*projection_, of_projection);
  prefix_names(*attention_, prefix + "attention" + numbered(number) + ".");
  attention_->visit_parameters([&](Parameter& p) {
    if (!p.drawn_as.empty()) p.drawn_as = of_projection + p.drawn_as;
  });
}

void SelfAttentionBranch::visit_parameters(const ParameterVisitor& visit) {
  norm_.visit_parameters(norm_name_, visit);
  projection_->visit_parameters(visit);
  attention_->visit_parameters(visit);
}

// -- a batch --------------------------------------------------------------------------------------

std::unique_ptr<BranchActivations> SelfAttentionBranch::make_activations() const {
  auto kept = std::make_unique<Kept>();
  kept->projection = projection_->make_activations();
  kept->attention = attention_->make_activations();
  return kept;
}

void SelfAttentionBranch::forward(Pass& pass, const BlockInputs& inputs, const Mat& x,
                                  const Mat& base, float sign, BranchActivations& kept,
                                  BranchScratch& scratch, Mat& out) const {
  Kept& own = static_cast<Kept&>(kept);
  norm_.forward(x, own.norm, own.normed);
  projection_->forward(pass, own.normed, *own.projection, own.qkv);
  attention_->take_input(own.normed, *own.attention);
  {
    const StreamsTogether together(pass, inputs.self.streams);
    attention_->forward(pass, own.qkv.q, own.qkv.k, own.qkv.v, inputs.self, *own.attention, own.o);
  }
  const bool has_output = projection_->has_output();
  if (has_output) projection_->forward_output(pass, own.o, *own.projection, scratch.y);
  add_branch(pass, drops_output_ ? &own.dropout : nullptr, DropoutMask::per_position,
             has_output ? scratch.y : own.o, base, sign, out);
}

void SelfAttentionBranch::backward(Pass& pass, const BlockInputs& inputs, const Mat& x,
                                   BranchActivations& kept, BranchScratch& scratch, const Mat& dout,
                                   Mat& dx, Mat* /*dencoded*/) const {
  Kept& own = static_cast<Kept&>(kept);
  const Mat& dy = branch_gradient(pass, drops_output_ ? &own.dropout : nullptr,
                                  DropoutMask::per_position, dout, scratch.dy);
  const bool has_output = projection_->has_output();
  if (has_output) projection_->backward_output(pass, own.o, *own.projection, dy, scratch.do_);
  {
    const StreamsTogether together(pass, inputs.self.streams);
    attention_->backward(pass, own.qkv.q, own.qkv.k, own.qkv.v, inputs.self, *own.attention,
                         has_output ? scratch.do_ : dy, scratch.dqkv.q, scratch.dqkv.k,
                         scratch.dqkv.v);
  }
  projection_->backward(pass, own.normed, *own.projection, scratch.dqkv, scratch.dnormed);
  attention_->add_input_gradient(*own.attention, scratch.dnormed);
  norm_.backward(x, own.norm, scratch.dnormed, dx);
}

AttentionView SelfAttentionBranch::attention_of(const BranchActivations& kept) const {
  const Kept& own = static_cast<const Kept&>(kept);
  return {&own.qkv.q, &own.qkv.k, &own.qkv.v, &own.o};
}

double SelfAttentionBranch::forward_flops(const TrainSizes& sizes) const {
  const std::int64_t length = sizes.length / sizes.streams;
  const double of_stream = attention_->work(length, sizes.causal).forward_flops(d_head_);
  // A later stream's position sees itself beside what the first's sees: two products of all heads.
  const double selves = 4 * double(d_) * double((sizes.streams - 1) * length);
  return double(sizes.length) * projection_->forward_flops() + double(sizes.streams) * of_stream +
         selves;
}

double SelfAttentionBranch::activation_floats(const TrainSizes& sizes) const {
  // The normed input, q, k, v, o and the result.
  return double(sizes.length) *
         (6 * double(d_) + projection_->activation_floats() + attention_->activation_floats());
}

double SelfAttentionBranch::thread_floats(const TrainSizes& sizes) const {
  return attention_->thread_floats(sizes.length);
}

// -- a decode -------------------------------------------------------------------------------------

std::unique_ptr<BranchState> SelfAttentionBranch::make_state(const DecodeSizes& sizes) const {
  auto state = std::make_unique<State>();
  state->tokens = sizes.tokens;
  state->cache = attention_->make_cache(sizes.tokens, sizes.positions);
  restart(*state);
  return state;
}

std::uint64_t SelfAttentionBranch::state_bytes(const DecodeSizes& sizes) const {
  return attention_->cache_bytes(sizes.tokens, sizes.positions);
}

void SelfAttentionBranch::restart(BranchState& state) const {
  State& own = static_cast<State&>(state);
  own.projection = projection_->make_state(own.tokens);
}

void SelfAttentionBranch::pretend(const StepContext& ctx, BranchState& state, std::int64_t length,
                                  std::uint64_t seed, const std::string& stream) const {
  static_cast<State&>(state).cache->pretend(ctx, length, seed, stream);
}

std::int64_t SelfAttentionBranch::workspace_floats(const DecodeSizes& sizes, int threads) const {
  return std::max(projection_->workspace_floats(sizes.tokens, threads),
                  attention_->workspace_floats(sizes.tokens, threads));
}

void SelfAttentionBranch::step(const StepContext& ctx, BranchState& state, const float* x,
                               float* acc, const StepBuffers& b) const {
  State& own = static_cast<State&>(state);
  norm_.step(ctx, x, b.normed);
  ctx.enter(BlockPart::projection);
  projection_->step(ctx, own.projection.get(), b.normed, b.q, b.k, b.v);
  ctx.enter(BlockPart::self_attention);
  attention_->take_input(ctx, *own.cache, b.normed);
  attention_->step(ctx, *own.cache, b.q, b.k, b.v, b.o);
  ctx.enter(BlockPart::projection);
  const bool has_output = projection_->has_output();
  if (has_output) projection_->step_output(ctx, own.projection.get(), b.o, b.y);
  ctx.enter(BlockPart::layer_norms);
  add_step(ctx, has_output ? b.y : b.o, d_, acc);
}

PerPart<Cost> SelfAttentionBranch::step_cost(const DecodeSizes& sizes) const {
  PerPart<Cost> costs;
  set_cost(costs, BlockPart::layer_norms, {norm_.step_cost(sizes.tokens)});
  set_cost(costs, BlockPart::projection, projection_->step_cost(sizes.tokens, sizes.type));
  set_cost(costs, BlockPart::self_attention, attention_->step_cost(sizes.tokens, sizes.positions));
  return costs;
}

}  // namespace scaling
