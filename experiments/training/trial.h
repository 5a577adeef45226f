// Steps of a curve that leave nothing behind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "experiments/training/curves.h"
#include "models/training/trainer.h"

namespace scaling {

/// A model ready for training; its threads are gone again when this returns, since OpenMP's follow.
std::unique_ptr<Transformer> allocate_for_training(const ModelConfig& config, int threads);

/// Trains from the start and reports every step; evaluates, on one batch, and writes a checkpoint
/// behind the last one only. folder: of the checkpoints, not there before and after. cache: folder
/// of tokenised text. Returns Trainer::flops_per_step. Throws UserError, and Interrupted.
double try_steps(Curve curve, std::int64_t steps, int threads, const std::string& cache,
                 const std::string& folder, const std::function<void(const TrainReport&)>& report);

}  // namespace scaling
