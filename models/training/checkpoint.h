// Weights and training state on disk: written whole or not at all, checked when read.
//
// The file is in the safetensors format (models/text/safetensors.h), its arrays f32: parameters
// under their names (rows x cols, frozen ones too), the optimiser's state as "optimizer." and its
// slot's name; of a model of SentencePiece's pieces also the vocabulary, kVocabularyTensor. All of
// the rest is text in "__metadata__": "format" (kCheckpointFormat), "step", "fingerprint",
// "training", "model" (a JSON object of the model's knobs), of models of text kTokenizerText, and
// the checksum. A file of weights is a checkpoint without the optimiser's state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/parameter.h"
#include "models/text/tokenizer.h"

namespace scaling {

inline constexpr const char* kCheckpointFormat = "scaling_transformers 2";  // from kOwnFormat on
inline constexpr const char* kOptimizerArrays = "optimizer.";  ///< names of its arrays begin so

/// What a checkpoint says of itself beside arrays: readable without a model.
struct CheckpointInfo {
  std::int64_t step = 0;
  ModelConfig model;
  std::string training;     ///< JSON text: the run's TrainConfig and counters
  std::string fingerprint;  ///< of the data
  /// Tokenizer::identity and ::model of the text; empty if examples are drawn, and in files that
  /// earlier programs wrote.
  std::string tokenizer = {}, vocabulary = {};
};

struct NamedArray {
  std::string name;
  std::vector<std::int64_t> shape;
  float* values;  ///< product of shape
};

/// The weights of a model in training storage: every parameter under its own name, frozen ones
/// too, with the shape (rows, cols) that load_weights expects.
std::vector<NamedArray> weight_arrays(const std::vector<Parameter*>& parameters);

/// Writes beside `path`, syncs, renames; removes what a killed run left beside it. Throws UserError
/// (disk full and the like) with the old file in place.
void save_checkpoint(const std::string& path, const CheckpointInfo& info,
                     const std::vector<NamedArray>& arrays);
/// Throws UserError naming the file if it is missing, no checkpoint, of another version (of version
/// 1 with the command that converts it) or damaged.
CheckpointInfo read_checkpoint_info(const std::string& path);
/// Fills the arrays; the file must hold these and no others, in the same shapes, else UserError
/// naming file and array. Then, and if the file is damaged, no array has been touched.
CheckpointInfo load_checkpoint(const std::string& path, const std::vector<NamedArray>& arrays);
/// Only the weights, into a model allocated in any layout and weight type; other arrays of the file
/// are passed over. Errors as load_checkpoint's.
CheckpointInfo load_weights(const std::string& path, const std::vector<Parameter*>& parameters);
/// Writes a checkpoint without the optimiser's state to another file: what a model is apart from
/// its training. tokenizer: of its text, null if its examples were drawn. Throws UserError.
void write_weights(const std::string& checkpoint, const std::string& to,
                   const Tokenizer* tokenizer);

}  // namespace scaling
