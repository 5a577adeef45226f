// What one token through a Transformer must read and compute, and a training step compute.
#include "models/layers/counting.h"
#include "models/transformer.h"

namespace scaling {
namespace {

/// Scale and bias of layer norms and rows of embedding tables are read, but the reference's tables
/// of weights read (7.6) leave them out, so they count as bytes and not as weights.
Phase uncounted(const char* name, double bytes, double flops) { return {name, 0, bytes, flops}; }

}  // namespace

Cost Transformer::block_cost(int tokens, std::int64_t length, std::int64_t source_length) const {
  const Block& block = *decoder_.blocks.front();
  const WeightType type = config_.weight_type;
  const double d = double(config_.d_model);
  const double norms = 2 + (block.cross_projection ? 1 : 0) + (block.recurrence ? 1 : 0);
  Cost cost{uncounted("layer_norms", norms * 2 * d * 4, norms * 8 * d * tokens)};
  append(cost, repeated(block.projection->step_cost(tokens, type), 1, "projection"));
  append(cost, repeated(attention_->step_cost(tokens, length), 1, "self"));
  if (block.cross_projection) {
    append(cost, repeated(block.cross_projection->step_cost(tokens, type), 1, "cross"));
    append(cost, repeated(cross_attention_->step_cost(tokens, source_length), 1, "cross"));
  }
  append(cost, repeated(block.feed_forward->step_cost(tokens, type), 1, "feed_forward"));
  if (block.recurrence) {
    append(cost, repeated(block.recurrence->step_cost(tokens, type), 1, "recurrence"));
  }
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

/// Of one position: training multiplies by every matrix, selected or not.
double feed_forward_flops(FeedForward& layer) {
  double weights = 0;
  layer.visit_parameters([&](Parameter& p) { weights += p.is_vector ? 0 : double(p.count()); });
  return 2 * weights;
}

/// Of one position: layers of these seats compute in a step all that they compute in training.
template <class L>
double dense_flops(const L& layer) {
  return total(layer.step_cost(1, WeightType::f32)).flops;
}

}  // namespace

double Transformer::training_flops(std::int64_t examples, std::int64_t source_length,
                                   std::int64_t target_length) const {
  const double d = double(config_.d_model), sequences = double(examples);
  const double source = double(source_length), target = double(target_length);
  const double source_rows = sequences * source, target_rows = sequences * target;
  double forward = target_rows * dense_flops(*loss_);
  for (const auto& block : encoder_.blocks) {
    forward += source_rows * (dense_flops(*block->projection) +
                              feed_forward_flops(*block->feed_forward) + 4 * d * source);
    if (block->recurrence) forward += source_rows * dense_flops(*block->recurrence);
  }
  for (const auto& block : decoder_.blocks) {
    forward += target_rows * (dense_flops(*block->projection) +
                              feed_forward_flops(*block->feed_forward) + 2 * d * (target + 1));
    if (block->recurrence) forward += target_rows * dense_flops(*block->recurrence);
    if (!block->cross_projection) continue;
    // Keys and values are dense products of the encoder's output.
    forward += target_rows * (dense_flops(*block->cross_projection) + 4 * d * source) +
               source_rows * 4 * d * d;
  }
  return 3 * forward;
}

}  // namespace scaling
