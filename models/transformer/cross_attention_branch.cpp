// Norm, queries, attention to the encoder's keys and values, output.
#include "models/transformer/cross_attention_branch.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/counting.h"

namespace scaling {

struct CrossAttentionBranch::Kept : AttentionBranchActivations {
  Mat q;
  CrossProjection::Memory memory;
};

struct CrossAttentionBranch::State : BranchState {
  /// Keys and values are the same for all.
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    if (projection) projection->reorder(ctx, moves);
  }
  int tokens = 1;
  std::unique_ptr<AttentionCache> cache;
  std::int64_t length = 0;  // cached positions
  std::unique_ptr<LayerState> projection;
};

CrossAttentionBranch::CrossAttentionBranch(const ModelConfig& config, const std::string& prefix)
    : norm_(config.d_model),
      projection_(make_cross_projection(config)),
      attention_(make_cross_attention(config)),
      name_(branch_name(prefix, "cross-attention")),
      norm_name_(prefix + "cross_norm."),
      d_(config.d_model),
      d_head_(config.d_head()),
      drops_output_(!config.is_reversible()) {
  prefix_names(*projection_, prefix + "cross_projection.");
  prefix_names(*attention_, prefix + "cross_attention.");
}

void CrossAttentionBranch::visit_parameters(const ParameterVisitor& visit) {
  norm_.visit_parameters(norm_name_, visit);
  projection_->visit_parameters(visit);
  attention_->visit_parameters(visit);
}

// -- a batch --------------------------------------------------------------------------------------

std::unique_ptr<BranchActivations> CrossAttentionBranch::make_activations() const {
  auto kept = std::make_unique<Kept>();
  kept->projection = projection_->make_activations();
  kept->attention = attention_->make_activations();
  return kept;
}

void CrossAttentionBranch::forward(Pass& pass, const BlockInputs& inputs, const Mat& x,
                                   const Mat& base, float sign, BranchActivations& kept,
                                   BranchScratch& scratch, Mat& out) const {
  SCALING_CHECK(inputs.encoded != nullptr);
  Kept& own = static_cast<Kept&>(kept);
  norm_.forward(x, own.norm, own.normed);
  {
    const StreamsTogether together(pass, inputs.self.streams);
    projection_->forward_memory(pass, *inputs.encoded, *own.projection, own.memory);
  }
  projection_->forward_query(pass, own.normed, *own.projection, own.q);
  {
    const StreamsTogether together(pass, inputs.self.streams);
    const WithoutGraphs all(pass);
    attention_->forward(pass, own.q, own.memory.k, own.memory.v, inputs.cross, *own.attention,
                        own.o);
  }
  const bool has_output = projection_->has_output();
  if (has_output) projection_->forward_output(pass, own.o, *own.projection, scratch.y);
  add_branch(pass, drops_output_ ? &own.dropout : nullptr, DropoutMask::per_position,
             has_output ? scratch.y : own.o, base, sign, out);
}

void CrossAttentionBranch::backward(Pass& pass, const BlockInputs& inputs, const Mat& x,
                                    BranchActivations& kept, BranchScratch& scratch,
                                    const Mat& dout, Mat& dx, Mat* dencoded) const {
  SCALING_CHECK(dencoded != nullptr);
  Kept& own = static_cast<Kept&>(kept);
  const Mat& dy = branch_gradient(pass, drops_output_ ? &own.dropout : nullptr,
                                  DropoutMask::per_position, dout, scratch.dy);
  const bool has_output = projection_->has_output();
  if (has_output) projection_->backward_output(pass, own.o, *own.projection, dy, scratch.do_);
  {
    const StreamsTogether together(pass, inputs.self.streams);
    attention_->backward(pass, own.q, own.memory.k, own.memory.v, inputs.cross, *own.attention,
                         has_output ? scratch.do_ : dy, scratch.dq, scratch.dmemory.k,
                         scratch.dmemory.v);
  }
  projection_->backward_query(pass, own.normed, *own.projection, scratch.dq, scratch.dnormed);
  {
    const StreamsTogether together(pass, inputs.self.streams);
    projection_->backward_memory(pass, *inputs.encoded, *own.projection, scratch.dmemory,
                                 scratch.dmemory_input);
  }
  add_to(*dencoded, scratch.dmemory_input);
  norm_.backward(x, own.norm, scratch.dnormed, dx);
}

double CrossAttentionBranch::forward_flops(const TrainSizes& sizes) const {
  return double(sizes.length) * projection_->forward_flops() +
         double(sizes.source) * projection_->memory_flops() +
         attention_->work(sizes.length, sizes.source).forward_flops(d_head_);
}

double CrossAttentionBranch::activation_floats(const TrainSizes& sizes) const {
  // The normed input, q, o and the result; k and v of the source.
  return double(sizes.length) * (4 * double(d_) + projection_->activation_floats()) +
         attention_->activation_floats(sizes.length, sizes.source) +
         double(sizes.source) * 2 * double(d_);
}

double CrossAttentionBranch::thread_floats(const TrainSizes& sizes) const {
  return attention_->thread_floats(sizes.length, sizes.source);
}

// -- a decode -------------------------------------------------------------------------------------

std::unique_ptr<BranchState> CrossAttentionBranch::make_state(const DecodeSizes& sizes) const {
  auto state = std::make_unique<State>();
  state->tokens = sizes.tokens;
  state->cache = attention_->make_cache(sizes.tokens, sizes.source);
  restart(*state);
  return state;
}

std::uint64_t CrossAttentionBranch::state_bytes(const DecodeSizes& sizes) const {
  return attention_->cache_bytes(sizes.tokens, sizes.source);
}

void CrossAttentionBranch::restart(BranchState& state) const {
  State& own = static_cast<State&>(state);
  own.projection = projection_->make_state(own.tokens);
}

void CrossAttentionBranch::begin(const StepContext& ctx, BranchState& state, const Mat& encoded,
                                 const StepBuffers& b) const {
  State& own = static_cast<State&>(state);
  for (std::int64_t first = 0; first < encoded.rows(); first += kMaxTokens) {
    StepContext some = ctx;
    some.position = first;
    some.tokens = int(std::min<std::int64_t>(kMaxTokens, encoded.rows() - first));
    projection_->step_memory(some, encoded.data() + first * d_, b.k, b.v);
    attention_->fill(some, *own.cache, first, some.tokens, b.k, b.v);
    some.sync();
  }
  if (ctx.thread == 0) own.length = encoded.rows();
}

std::int64_t CrossAttentionBranch::workspace_floats(const DecodeSizes& sizes, int threads) const {
  // begin() takes the source's positions so many at once.
  return std::max(projection_->workspace_floats(std::max(sizes.tokens, kMaxTokens), threads),
                  attention_->workspace_floats(sizes.tokens, threads));
}

void CrossAttentionBranch::step(const StepContext& ctx, BranchState& state, const float* x,
                                float* acc, const StepBuffers& b) const {
  State& own = static_cast<State&>(state);
  norm_.step(ctx, x, b.normed);
  ctx.enter(BlockPart::cross_projection);
  projection_->step_query(ctx, own.projection.get(), b.normed, b.q);
  ctx.enter(BlockPart::cross_attention);
  attention_->step(ctx, *own.cache, own.length, b.q, b.o);
  ctx.enter(BlockPart::cross_projection);
  const bool has_output = projection_->has_output();
  if (has_output) projection_->step_output(ctx, own.projection.get(), b.o, b.y);
  ctx.enter(BlockPart::layer_norms);
  add_step(ctx, has_output ? b.y : b.o, d_, acc);
}

PerPart<Cost> CrossAttentionBranch::step_cost(const DecodeSizes& sizes) const {
  PerPart<Cost> costs;
  set_cost(costs, BlockPart::layer_norms, {norm_.step_cost(sizes.tokens)});
  set_cost(costs, BlockPart::cross_projection, projection_->step_cost(sizes.tokens, sizes.type));
  set_cost(costs, BlockPart::cross_attention, attention_->step_cost(sizes.tokens, sizes.source));
  return costs;
}

}  // namespace scaling
