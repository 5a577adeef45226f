// What holds of every task that makes examples of sentences with an encoder's source.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/training/trainer.h"
#include "tests/helpers.h"

namespace scaling {

/// `documents` lines of four to nine sentences, words of two to six letters.
void write_sentences(const std::string& path, int documents, std::uint64_t seed);

TrainConfig sentences_config(const std::string& task, const Folder& folder);

std::vector<int> example_of(const std::vector<int>& all, std::int64_t example, std::int64_t length);

/// Neither the order of calls nor pieces nor another task object changes a batch; seed and epoch
/// do; evaluation is always the same.
void expect_function_of_index(TrainConfig config, std::int64_t vocab_size, const Folder& folder);

/// Every knob, set to another value, makes another text of it; and it says so without being made.
void expect_knobs_in_identity(const TrainConfig& config, std::int64_t vocab_size,
                              const Folder& folder,
                              const std::vector<std::pair<std::string, std::string>>& values);

/// Six steps of a small model, and three and three more, lead to the same evaluation bit for bit.
void expect_resumes(TrainConfig config, std::int64_t vocab_size, const Folder& folder);

}  // namespace scaling
