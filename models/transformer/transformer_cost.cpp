// What one token through a Transformer must read and compute, and a training step compute.
#include "models/layers/parts/counting.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

/// Scale and bias of layer norms and rows of embedding tables are read, but the reference's tables
/// of weights read (7.6) leave them out, so they count as bytes and not as weights.
Phase uncounted(const char* name, double bytes, double flops) { return {name, 0, bytes, flops}; }

}  // namespace

PerSeat<Cost> Transformer::block_cost_by_seat(int tokens, std::int64_t length,
                                              std::int64_t source_length) const {
  const Block& block = *decoder_.blocks.front();
  const WeightType type = config_.weight_type;
  const double d = double(config_.d_model);
  const FeedForwardBranch& last = *block.feed_forward;
  const double norms = double(block.branches().size()) + (last.recurrence ? 1 : 0);
  const std::int64_t cached = length + (config_.is_concatenated() ? source_length : 0);
  PerSeat<Cost> costs;
  const auto set = [&costs](Seat seat, const Cost& cost, double times = 1) {
    costs[std::size_t(seat)] = repeated(cost, times, name_of(seat));
  };
  costs[std::size_t(Seat::layer_norms)] = {
      uncounted("layer_norms", norms * 2 * d * 4, norms * 8 * d * tokens)};
  const auto attentions = double(block.self_attentions.size());
  set(Seat::projection, block.self_attentions.front()->projection->step_cost(tokens, type),
      attentions);
  set(Seat::self_attention, attention_->step_cost(tokens, cached), attentions);
  if (block.cross_attention) {
    set(Seat::cross_projection, block.cross_attention->projection->step_cost(tokens, type));
    set(Seat::cross_attention, cross_attention_->step_cost(tokens, source_length));
  }
  set(Seat::feed_forward, last.feed_forward->step_cost(tokens, type));
  if (last.recurrence) set(Seat::recurrence, last.recurrence->step_cost(tokens, type));
  return costs;
}

Cost Transformer::block_cost(int tokens, std::int64_t length, std::int64_t source_length) const {
  Cost cost;
  for (const Cost& seat : block_cost_by_seat(tokens, length, source_length)) append(cost, seat);
  return cost;
}

namespace {

Cost whole_token(const Transformer& model, std::int64_t layers, int tokens, std::int64_t length,
                 std::int64_t source_length) {
  const ModelConfig& config = model.config();
  const double d = double(config.d_model);
  const double rows = 2 * d * tokens * double(bytes_of(config.weight_type));
  Cost cost{uncounted("embedding", rows, d * tokens)};
  append(cost, repeated(model.block_cost(tokens, length, source_length), double(layers)));
  cost.push_back(uncounted("final_norm", 2 * d * 4, 8 * d * tokens));
  append(cost, repeated(model.loss().step_cost(tokens, config.weight_type), 1, "loss"));
  return cost;
}

}  // namespace

Cost Transformer::token_cost(int tokens, std::int64_t length, std::int64_t source_length) const {
  return whole_token(*this, config_.decoder_layers, tokens, length, source_length);
}

Cost Transformer::held_token_cost(int tokens, std::int64_t length,
                                  std::int64_t source_length) const {
  return whole_token(*this, blocks(), tokens, length, source_length);
}

namespace {

/// Of one sequence through a block, cross-attention left out; attention: of one between
/// projections.
double block_flops(const Block& block, double length, double attention) {
  const FeedForwardBranch& last = *block.feed_forward;
  double flops = length * last.feed_forward->forward_flops();
  for (const auto& branch : block.self_attentions) {
    flops += length * branch->projection->forward_flops() + attention;
  }
  if (last.recurrence) flops += length * last.recurrence->forward_flops();
  return flops;
}

}  // namespace

double Transformer::training_flops(std::int64_t examples, std::int64_t source_length,
                                   std::int64_t target_length) const {
  const auto attention = [this](const Attention& layer, std::int64_t queries, std::int64_t keys,
                                bool causal) {
    return layer.work(queries, keys, causal).forward_flops(config_.d_head());
  };
  const double source = double(source_length), target = double(target_length);
  double forward = target * loss_->forward_flops();
  for (const auto& block : encoder_.blocks) {
    forward +=
        block_flops(*block, source, attention(*attention_, source_length, source_length, false));
  }
  if (encoder_.output) {
    forward += source * total(encoder_.output->step_cost(1, WeightType::f32)).flops;
  }
  const std::int64_t length = target_length + (config_.is_concatenated() ? source_length : 0);
  for (const auto& block : decoder_.blocks) {
    forward += block_flops(*block, double(length), attention(*attention_, length, length, true));
    if (!block->cross_attention) continue;
    const CrossProjection& projection = *block->cross_attention->projection;
    forward += target * projection.forward_flops() + source * projection.memory_flops() +
               attention(*cross_attention_, target_length, source_length, false);
  }
  return 3 * double(examples) * forward;
}

}  // namespace scaling
