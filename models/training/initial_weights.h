// Weights that training starts from: a safetensors file of this project's or of another program.
//
// The file has a tensor for every parameter, frozen ones too, by the parameter's name (those of
// checkpoints and of Transformer::parameters(), e.g. "decoder.0.feed_forward.w1"), rows x cols or,
// of a vector, its length alone, as F32, F16 or BF16. Tensors of an optimiser's state and the
// vocabulary (kVocabularyTensor) are passed over. If its metadata name a tokenizer
// (kTokenizerText), that is the run's.
#pragma once

#include <string>
#include <vector>

#include "models/parameter.h"
#include "models/text/tokenizer.h"

namespace scaling {

/// Hash of a file's bytes, 16 hexadecimal digits. Throws UserError if it cannot be read.
std::string content_of(const std::string& path);

/// Fills parameters in training storage. tokenizer: the run's; null: its examples are drawn. Throws
/// UserError naming file and tensor if the file is damaged, lacks a parameter, has one more or in
/// another shape, or belongs to another tokenizer; then nothing has been touched. Values that are
/// not finite are refused, too.
void load_initial_weights(const std::string& path, const std::vector<Parameter*>& parameters,
                          const Tokenizer* tokenizer);

}  // namespace scaling
