// GLUE as text to text (the paper's Table 3): an encoder reads a prompt made of a row's columns, a
// decoder tells the words of its label.
#pragma once

#include <memory>

#include "models/tasks/task.h"

namespace scaling {

/// Which of GLUE's tasks, config.task says (models/tasks/glue_tasks.h). A prompt is cut to `length`
/// tokens; the target is the answer's words, every token of weight 1, without an end, as in the
/// paper's code. With language_weight > 0 training has an auxiliary language-model loss (GPT:
/// Radford et al. 2018, equation 5): the decoder goes on to tell the prompt, whose tokens weigh
/// language_weight times what the label's do, together; what is evaluated stays. Batches are padded
/// to their longest prompt and hold prompts of like lengths: of sixteen batches' rows, drawn anew
/// each epoch, the shortest are one batch, and so on; these batches train in a random order.
/// Examples are held in memory, as tokens.
Needs needs_of_glue(const TrainConfig& config);
/// corpus: rows to train on, validation: rows to be evaluated on, evaluate_batches * batch of them
/// spread evenly, or all; each a tab-separated file as GLUE has it, or a glob. Throws UserError if
/// one of them is missing, and naming file and line if it is none of the task's.
std::unique_ptr<Task> make_glue(const TrainConfig& config, std::int64_t vocab_size,
                                std::unique_ptr<TextStore> text);

}  // namespace scaling
