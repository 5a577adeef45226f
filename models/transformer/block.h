// A block: its residual branches in the order in which they run (paper 5.1, 7.1).
#pragma once

#include <memory>
#include <vector>

#include "models/transformer/branch.h"

namespace scaling {

enum class StackKind { encoder, decoder };

/// "encoder", "decoder": what names of parameters begin with.
const char* name_of(StackKind kind);

/// config.attention_layers self-attentions (an encoder's block has one, its projections dense:
/// paper 7.4), cross-attention if the decoder attends to an encoder, the feed-forward. How
/// their results are added up is the stack's affair.
struct Block {
  /// index: among the stack's blocks; says which of the attentions that blocks take in turn it has.
  Block(const ModelConfig& config, StackKind kind, std::size_t index);
  void visit_parameters(const ParameterVisitor& visit) const;

  std::vector<std::unique_ptr<Branch>> branches;
};

}  // namespace scaling
