// Gap sentences (PEGASUS, Zhang et al. 2020): whole sentences are taken out of a text, those that
// say most of it, and have to be told, as a summary of the rest would be.
#pragma once

#include <memory>

#include "models/tasks/task.h"

namespace scaling {

/// How many of a text's sentences go: the share of them, halves up, but one at least and not all of
/// several.
std::int64_t gap_count(double share, std::int64_t sentences);

/// Each document is cut into texts of at most `length` tokens. The source is the text and its end,
/// each chosen sentence replaced by kMaskId ([MASK1]); it has room for `length` + 1 tokens, so that
/// nothing is cut. The target is the chosen sentences in the text's order and an end; of one longer
/// than target_length only the beginning is asked, without an end, and the task's description says
/// how often that comes. Sentences are those of Boundaries; a text that is a single one is asked
/// for whole. gap_share_min 0.15, gap_share_max 0.45 and gap_noise 0.2 are the mixed and stochastic
/// variant, whose released parameters have gap_unmasked 0.1, too. Words hidden in the source
/// ([MASK2]) are left out, as in the large model. Only the sentences' text counts as bytes.
Needs needs_of_gap_sentences(const TrainConfig& config);
/// Throws UserError for a text whose validation part has no two sentences in any of its first
/// texts.
std::unique_ptr<Task> make_gap_sentences(const TrainConfig& config, std::int64_t vocab_size,
                                         std::unique_ptr<TextStore> text);

}  // namespace scaling
