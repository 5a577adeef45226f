// Weights and training state on disk: written whole or not at all, checked when read.
//
// The file: "SCALCKPT", version, bytes of the header; the header (numbers of 8 bytes, texts after
// their length: step, fingerprint, training, the model's knobs, every array's name and shape);
// zeros up to a multiple of 64; the arrays, f32, in the header's order; a hash
// (models/text/hash.h) of all that. Everything little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/parameter.h"

namespace scaling {

/// What a checkpoint says of itself beside arrays: readable without a model.
struct CheckpointInfo {
  std::int64_t step = 0;
  ModelConfig model;
  std::string training;     ///< JSON text: the run's TrainConfig and counters
  std::string fingerprint;  ///< of the data
};

struct NamedArray {
  std::string name;
  std::vector<std::int64_t> shape;
  float* values;  ///< product of shape
};

/// Of a model in training storage: every parameter under its own name, frozen ones too, with the
/// shape (rows, cols) that load_weights expects.
std::vector<NamedArray> weight_arrays(const std::vector<Parameter*>& parameters);

/// Writes beside `path`, syncs, renames; removes what a killed run left beside it. Throws UserError
/// (disk full and the like) with the old file in place.
void save_checkpoint(const std::string& path, const CheckpointInfo& info,
                     const std::vector<NamedArray>& arrays);
/// Throws UserError naming the file if it is missing, no checkpoint, of another version or damaged.
CheckpointInfo read_checkpoint_info(const std::string& path);
/// Fills the arrays; the file must hold these and no others, in the same shapes, else UserError
/// naming file and array. Then, and if the file is damaged, no array has been touched.
CheckpointInfo load_checkpoint(const std::string& path, const std::vector<NamedArray>& arrays);
/// Only the weights, into a model allocated in any layout and weight type; other arrays of the file
/// are passed over. Errors as load_checkpoint's.
CheckpointInfo load_weights(const std::string& path, const std::vector<Parameter*>& parameters);

}  // namespace scaling
