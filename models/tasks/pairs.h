// Pairs of texts, such as a sentence and its translation or an article and its abstract: an encoder
// reads the source, a decoder tells the target.
#pragma once

#include <memory>

#include "models/tasks/task.h"

namespace scaling {

/// A chunk of TextStore::Layout::pairs is an example: its source in `length` positions, its target
/// in `target_length`, each with its end. What is longer is cut and has no end there; the task's
/// description says how many of either side are, in training and in evaluation, and how many of all
/// tokens that is. Every token of the target and its end are asked; bytes are those of the target.
/// With paragraph_tokens, paragraph i of a source begins at position i * paragraph_tokens and has
/// an end of its own (lay_out_source of models/text/pair_chunks.h). Throws UserError naming both
/// numbers if `length` is no multiple of paragraph_tokens, or pairs are to be joined as well.
Needs needs_of_pairs(const TrainConfig& config);
std::unique_ptr<Task> make_pairs(const TrainConfig& config, std::int64_t vocab_size,
                                 std::unique_ptr<TextStore> text);

}  // namespace scaling
