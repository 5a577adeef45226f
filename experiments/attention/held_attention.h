// An attention by itself, outside a model.
#pragma once

#include <memory>
#include <vector>

#include "models/attention.h"
#include "models/config.h"

namespace scaling {

/// With its parameters, if it has any, as training holds them: initial values, gradients of zero.
class HeldAttention {
 public:
  explicit HeldAttention(const ModelConfig& model);
  const SelfAttention* operator->() const { return attention_.get(); }
  const SelfAttention& layer() const { return *attention_; }

 private:
  std::unique_ptr<SelfAttention> attention_;
  std::vector<std::vector<float>> memory_;  ///< moving an inner vector moves no float
};

}  // namespace scaling
