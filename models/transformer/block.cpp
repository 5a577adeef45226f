// Who is in a block: the one place that knows.
#include "models/transformer/block.h"

#include <cstdint>
#include <string>

#include "models/transformer/cross_attention_branch.h"
#include "models/transformer/feed_forward_branch.h"
#include "models/transformer/self_attention_branch.h"

namespace scaling {

const char* name_of(StackKind kind) { return kind == StackKind::encoder ? "encoder" : "decoder"; }

Block::Block(const ModelConfig& config, StackKind kind, std::size_t index) {
  const std::string prefix = std::string(name_of(kind)) + "." + std::to_string(index) + ".";
  const bool is_decoder = kind == StackKind::decoder;
  for (int number = 1; number <= (is_decoder ? config.attention_layers : 1); ++number) {
    branches.push_back(std::make_unique<SelfAttentionBranch>(
        config, Where{.in_encoder = !is_decoder, .block = std::int64_t(index)}, number, prefix));
  }
  if (is_decoder && config.has_cross_attention()) {
    branches.push_back(std::make_unique<CrossAttentionBranch>(config, prefix));
  }
  branches.push_back(std::make_unique<FeedForwardBranch>(config, prefix));
}

void Block::visit_parameters(const ParameterVisitor& visit) const {
  for (const auto& branch : branches) branch->visit_parameters(visit);
}

}  // namespace scaling
