// A block: its residual branches in the order in which they run (reference 5.1, 7.1).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/transformer/branch.h"

namespace scaling {

/// config.attention_layers self-attentions (an encoder's block has one), cross-attention if the
/// decoder attends to an encoder, the feed-forward. How their results are added up is the stack's
/// affair.
struct Block {
  /// prefix: of all parameters' names ("decoder.0.").
  Block(const ModelConfig& config, Place place, const std::string& prefix);
  void visit_parameters(const ParameterVisitor& visit) const;
  std::vector<Branch*> branches() const;

  std::vector<std::unique_ptr<SelfAttentionBranch>> self_attentions;
  std::unique_ptr<CrossAttentionBranch> cross_attention;  ///< may be null
  std::unique_ptr<FeedForwardBranch> feed_forward;
};

}  // namespace scaling
