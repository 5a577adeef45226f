// What a curve is trained on, told by its content.
#pragma once

#include <cstdint>
#include <string>

#include "models/text/corpus.h"
#include "models/training/train_config.h"

namespace scaling {

/// Folder of tokenised corpora: the config's, or cache/ in scratch.
std::string cache_folder(const TrainConfig& train, const std::string& scratch);

/// Names texts, tokenizer and task, the same for all curves that may stand beside each other
/// whatever their seeds and batches; of toy tasks the numbers' lengths. Nothing is tokenised: a
/// text is read at most, and not even that if `cache` knows its content. Throws UserError if the
/// corpus is missing or cannot be read.
std::string data_fingerprint(TrainConfig train, std::int64_t vocab_size, const std::string& cache,
                             const ReadWatch& watch);

}  // namespace scaling
