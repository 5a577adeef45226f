// What one token through a Transformer must read and compute, and what a training step computes and
// keeps: sums over its branches.
#include <algorithm>

#include "kernels/openmp_threads.h"
#include "models/layers/parts/counting.h"
#include "models/transformer/transformer.h"

namespace scaling {

DecodeSizes Transformer::decode_sizes(int tokens, std::int64_t length,
                                      std::int64_t source_length) const {
  return {.tokens = tokens,
          .positions = length + (config_.is_concatenated() ? source_length : 0),
          .source = config_.has_cross_attention() ? source_length : 0,
          .type = config_.weight_type};
}

std::uint64_t Transformer::state_bytes(const DecodeSizes& sizes) const {
  std::uint64_t bytes = 0;
  for (const auto& block : decoder_.blocks) {
    for (const auto& branch : block->branches) bytes += branch->state_bytes(sizes);
  }
  return bytes;
}

namespace {

/// Phases of one name become one, so that a mean over equal blocks is exactly one of them.
void merge(Cost& to, const Cost& more) {
  for (const Phase& phase : more) {
    const auto same =
        std::find_if(to.begin(), to.end(), [&](const Phase& p) { return p.name == phase.name; });
    if (same == to.end()) {
      to.push_back(phase);
      continue;
    }
    *same = total({*same, phase}, phase.name);
  }
}

}  // namespace

PerPart<Cost> Transformer::block_cost_by_part(int tokens, std::int64_t length,
                                              std::int64_t source_length) const {
  const DecodeSizes sizes = decode_sizes(tokens, length, source_length);
  PerPart<Cost> costs;
  for (const auto& block : decoder_.blocks) {
    for (const auto& branch : block->branches) {
      const PerPart<Cost> more = branch->step_cost(sizes);
      for (std::size_t part = 0; part < kParts; ++part) merge(costs[part], more[part]);
    }
  }
  for (Cost& cost : costs) {
    for (Phase& phase : cost) {
      for (double* sum : {&phase.weights, &phase.bytes, &phase.flops}) *sum /= double(blocks());
    }
  }
  return costs;
}

Cost Transformer::block_cost(int tokens, std::int64_t length, std::int64_t source_length) const {
  Cost cost;
  for (const Cost& part : block_cost_by_part(tokens, length, source_length)) append(cost, part);
  return cost;
}

namespace {

Cost whole_token(const Transformer& model, std::int64_t layers, int tokens, std::int64_t length,
                 std::int64_t source_length) {
  const ModelConfig& config = model.config();
  const double d = double(config.d_model);
  // Rows of embedding tables are read, but count as no weights (see Norm::step_cost).
  const double rows = 2 * d * tokens * double(bytes_of(config.weight_type));
  Cost cost{{"embedding", 0, rows, d * tokens}};
  append(cost, repeated(model.block_cost(tokens, length, source_length), double(layers)));
  append(cost, repeated({model.decoder().norm.step_cost(tokens)}, 1, "final"));
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

double Transformer::training_flops(std::int64_t examples, std::int64_t source_length,
                                   std::int64_t target_length, bool causal) const {
  double forward = double(config_.future_tokens) * double(target_length) * loss_->forward_flops();
  if (encoder_.output) {
    forward += double(source_length) * total(encoder_.output->step_cost(1, WeightType::f32)).flops;
  }
  const auto add_stack = [&](const Stack& stack, const TrainSizes& sizes) {
    for (const auto& block : stack.blocks) {
      for (const auto& branch : block->branches) forward += branch->forward_flops(sizes);
    }
  };
  add_stack(encoder_, encoder_sizes(source_length));
  add_stack(decoder_, decoder_sizes(source_length, target_length, causal));
  return 3 * double(examples) * forward;
}

double Transformer::activation_bytes(std::int64_t examples, std::int64_t source_length,
                                     std::int64_t target_length) const {
  // Vectors of d at each position of a stack that its branches share: streams, their gradients and
  // what one branch works in after another.
  constexpr double kSharedVectors = 20;
  double floats = 0;  // of an example
  double of_threads = 0;
  const auto add_stack = [&](const Stack& stack, const TrainSizes& sizes) {
    if (stack.blocks.empty()) return;
    floats += kSharedVectors * double(sizes.length * config_.d_model);
    const std::size_t kept = stack.stores() ? stack.blocks.size() : stack.in_turn();
    for (std::size_t i = 0; i < std::min(kept, stack.blocks.size()); ++i) {
      for (const auto& branch : stack.blocks[i]->branches) {
        floats += branch->activation_floats(sizes);
        of_threads += branch->thread_floats(sizes);
      }
    }
  };
  add_stack(encoder_, encoder_sizes(source_length));
  add_stack(decoder_, decoder_sizes(source_length, target_length, true));
  // Threads share the heads of all examples.
  const auto heads = double(examples * config_.n_heads);
  return sizeof(float) *
         (double(examples) * floats + std::min(double(openmp_threads()), heads) * of_threads);
}

TrainSizes Transformer::encoder_sizes(std::int64_t source_length) const {
  return {.length = source_length, .source = 0, .causal = false};
}

TrainSizes Transformer::decoder_sizes(std::int64_t source_length, std::int64_t target_length,
                                      bool causal) const {
  return {.length = config_.future_tokens * target_length +
                    (config_.is_concatenated() ? source_length : 0),
          .source = config_.has_cross_attention() ? source_length : 0,
          .causal = causal,
          .streams = config_.future_tokens};
}

}  // namespace scaling
