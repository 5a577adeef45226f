// What one token through a Transformer must read and compute.
#include "models/layers/counting.h"
#include "models/transformer.h"

namespace scaling {
namespace {

/// Scale and bias of layer norms and rows of embedding tables are read, but the reference's tables
/// of weights read (7.6) leave them out, so they count as bytes and not as weights.
Phase uncounted(const char* name, double bytes, double flops) { return {name, 0, bytes, flops}; }

}  // namespace

Cost Transformer::block_cost(int tokens, std::int64_t length, std::int64_t source_length) const {
  const DecoderBlock& block = *decoder_.front();
  const WeightType type = config_.weight_type;
  const double d = double(config_.d_model);
  Cost cost{uncounted("layer_norms", 3 * 2 * d * 4, 3 * 8 * d * tokens)};
  append(cost, repeated(block.projection->step_cost(tokens, type), 1, "projection"));
  append(cost, repeated(attention_->step_cost(tokens, length), 1, "self"));
  append(cost, repeated(block.cross_projection->step_cost(tokens, type), 1, "cross"));
  append(cost, repeated(attention_->step_cost(tokens, source_length), 1, "cross"));
  append(cost, repeated(block.feed_forward->step_cost(tokens, type), 1, "feed_forward"));
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

}  // namespace scaling
