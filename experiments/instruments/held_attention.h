// An attention by itself, outside a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/attention.h"
#include "models/config.h"

namespace scaling {

/// With its parameters, if it has any, as training holds them, gradients of zero.
class HeldAttention {
 public:
  /// Initial values.
  explicit HeldAttention(const ModelConfig& model);
  /// Those that a file of weights has under names with this prefix ("decoder.0.attention.").
  /// Throws UserError naming file and tensor.
  HeldAttention(const ModelConfig& model, const std::string& weights, const std::string& prefix);
  const SelfAttention* operator->() const { return attention_.get(); }
  const SelfAttention& layer() const { return *attention_; }

 private:
  std::unique_ptr<SelfAttention> attention_;
  std::vector<std::vector<float>> memory_;  ///< moving an inner vector moves no float
};

/// Settings that make an attention: the knobs of all of them, then whether it is causal.
Settings attention_settings(const ModelConfig& model, bool causal = true);

}  // namespace scaling
