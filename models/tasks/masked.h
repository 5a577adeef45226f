// Masked language modelling (BERT, Devlin et al. 2019): tokens of a text are hidden and have to be
// told from both sides.
#pragma once

#include <memory>

#include "models/tasks/task.h"

namespace scaling {

/// What is read in place of a hidden token: the id of unknown ones, which no tokenizer yields,
/// since both fall back to bytes.
inline constexpr int kMaskId = 2;

/// Windows of `length` tokens, read without a causal mask. 15 % of each window's tokens, chosen
/// anew in every epoch, are targets of weight 1: of them 80 % are hidden, 10 % replaced by a random
/// token, 10 % left as they are.
Needs needs_of_masked(const TrainConfig& config);
std::unique_ptr<Task> make_masked(const TrainConfig& config, std::int64_t vocab_size,
                                  std::unique_ptr<TextStore> text);

}  // namespace scaling
