// Language modelling: each token of a text from those before it.
#pragma once

#include <memory>

#include "models/tasks/task.h"

namespace scaling {

/// Windows of `length` tokens, every position a target of weight 1.
Needs needs_of_causal(const TrainConfig& config);
std::unique_ptr<Task> make_causal(const TrainConfig& config, std::int64_t vocab_size,
                                  std::unique_ptr<TextStore> text);

}  // namespace scaling
