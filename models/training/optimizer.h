// Rules that turn gradients into new weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/parameter.h"
#include "models/train_config.h"

namespace scaling {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update of every parameter that has a gradient, in order, running means behind the weights;
  /// step counts from 1. Gradients are left as they are.
  virtual void update(std::int64_t step, double learning_rate) = 0;
  /// The state's arrays, always in the same order, for checkpoints: name, values.
  struct Slot {
    std::string name;
    std::vector<float>* values;
  };
  virtual std::vector<Slot> slots() = 0;
};

/// parameters outlive the optimiser.
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters);
/// rho of Adafactor's running means at a step (1, 2, ...): 1 - (step + 1)^-0.8 (paper 9.3).
double adafactor_decay_at(std::int64_t step);
/// Share of every weight that Adafactor takes off at a step (1, 2, ...), falling linearly if
/// weight_decay_steps says so (paper 9.3).
double weight_decay_at(const TrainConfig& config, std::int64_t step);
/// Learning rate of a step (1, 2, ...) by the config's schedule (paper 9.4): rsqrt is
/// learning_rate / sqrt(max(step, warmup_steps)), without a linear warm-up; warmup_rsqrt has one;
/// constant is learning_rate. linear and cosine rise linearly to learning_rate in warmup_steps and
/// fall to 0 at decay_steps, where they stay (Loshchilov and Hutter 2017, equation 5, without
/// restarts).
double learning_rate_at(const TrainConfig& config, std::int64_t step);
/// What the rate is multiplied with for a parameter's updates, by its role: selector_rate,
/// selected_rate or 1. Weight decay stays as it is.
double rate_factor(const TrainConfig& config, const Parameter& parameter);
/// Whether the rate still rises at a step (1, 2, ...).
bool is_warming_up(const TrainConfig& config, std::int64_t step);

}  // namespace scaling
