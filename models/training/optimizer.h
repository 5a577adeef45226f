// Rules that turn gradients into new weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/parameter.h"
#include "models/training/train_config.h"

namespace scaling {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update of every parameter that has a gradient, in order; step counts from 1. Gradients are
  /// left as they are.
  virtual void update(std::int64_t step, double learning_rate) = 0;
  /// The state's arrays, always in the same order, for checkpoints: name, values.
  struct Slot {
    std::string name;
    std::vector<float>* values;
  };
  virtual std::vector<Slot> slots() = 0;
};

/// parameters outlive the optimiser. Throws UserError listing the known names.
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters);
/// Learning rate of a step (1, 2, ...) by the config's schedule.
double learning_rate_at(const TrainConfig& config, std::int64_t step);

}  // namespace scaling
