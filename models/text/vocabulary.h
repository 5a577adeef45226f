// SentencePiece models, one for each corpus and size, trained when first needed; or that of a file
// of weights.
#pragma once

#include <cstdint>
#include <string>

#include "models/text/corpus.h"

namespace scaling {

/// Path of the model of this corpus, in the cache folder under the corpus' hash and the size. It is
/// trained on at most 10 MB of lines spread evenly over the text (over the first GiB of it).
/// Concurrent runs may train the same one: each gets a whole file.
std::string sentencepiece_model(const Corpus& corpus, std::uint64_t hash, std::int64_t vocab_size,
                                const std::string& cache_folder);

/// The SentencePiece model that the weights in a safetensors file were trained with, which the file
/// carries (kVocabularyTensor). Throws UserError if the file cannot be read or carries none.
std::string vocabulary_of_weights(const std::string& path);

}  // namespace scaling
