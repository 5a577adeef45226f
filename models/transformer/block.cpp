// Who is in a block.
#include "models/transformer/block.h"

namespace scaling {

Block::Block(const ModelConfig& config, Place place, const std::string& prefix) {
  const std::int64_t attentions = place == Place::decoder ? config.attention_layers : 1;
  for (std::int64_t i = 1; i <= attentions; ++i) {
    self_attentions.push_back(std::make_unique<SelfAttentionBranch>(config, place, int(i), prefix));
  }
  if (place == Place::decoder && config.has_cross_attention()) {
    cross_attention = std::make_unique<CrossAttentionBranch>(config, prefix);
  }
  feed_forward = std::make_unique<FeedForwardBranch>(config, prefix);
}

std::vector<Branch*> Block::branches() const {
  std::vector<Branch*> all;
  for (const auto& branch : self_attentions) all.push_back(branch.get());
  if (cross_attention) all.push_back(cross_attention.get());
  all.push_back(feed_forward.get());
  return all;
}

void Block::visit_parameters(const ParameterVisitor& visit) const {
  for (Branch* branch : branches()) branch->visit_parameters(visit);
}

}  // namespace scaling
