// What must agree before training begins or goes on.
#pragma once

#include <string>

#include "models/config.h"
#include "models/tasks/task.h"
#include "models/train_config.h"

namespace scaling {

/// Throws UserError naming task and model if the model lacks what the task needs, or has too much,
/// or cannot be causal where the task is.
void require_fit(const TrainConfig& train, const Needs& needs, const ModelConfig& model);
/// A part of that: throws UserError if examples take more positions than the model has.
void require_room(const TrainConfig& train, const Needs& needs, const ModelConfig& model);

/// Throw UserError naming the checkpoint `path` and the first knob that differs, with both values;
/// knobs that change no weight may differ.
void require_same_model(const std::string& path, const ModelConfig& theirs,
                        const ModelConfig& ours);
void require_same_training(const std::string& path, const TrainConfig& theirs,
                           const TrainConfig& ours);

}  // namespace scaling
