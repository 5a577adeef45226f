// Weights and training state on disk: written whole or not at all, checked when read.
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

/// Writes beside `path`, syncs, renames. Throws UserError (disk full and the like) with the old file
/// in place.
void save_checkpoint(const std::string& path, const CheckpointInfo& info,
                     const std::vector<NamedArray>& arrays);
/// Throws UserError naming the file if it is missing, no checkpoint, of another version or damaged.
CheckpointInfo read_checkpoint_info(const std::string& path);
/// Fills the arrays; names and shapes must agree, else UserError naming both.
CheckpointInfo load_checkpoint(const std::string& path, const std::vector<NamedArray>& arrays);
/// Only the weights, into a model allocated in any layout and weight type.
CheckpointInfo load_weights(const std::string& path, const std::vector<Parameter*>& parameters);

}  // namespace scaling
