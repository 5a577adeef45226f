// Schedules, and which rule a name stands for.
#include "models/training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "models/training/adafactor.h"
#include "models/training/adam.h"

namespace scaling {

double adafactor_decay_at(std::int64_t step) {
  SCALING_CHECK(step >= 1);
  return 1 - std::pow(double(step) + 1, -0.8);
}

double weight_decay_at(const TrainConfig& config, std::int64_t step) {
  SCALING_CHECK(step >= 1);
  if (config.weight_decay_steps < 1) return config.weight_decay;
  const double left = double(std::max<std::int64_t>(config.weight_decay_steps - step, 0));
  return config.weight_decay * left / double(config.weight_decay_steps);
}

double learning_rate_at(const TrainConfig& config, std::int64_t step) {
  SCALING_CHECK(step >= 1);
  if (config.schedule == Schedule::constant) return config.learning_rate;
  const double t = double(step), warmup = double(config.warmup_steps);
  const double rsqrt = config.learning_rate / std::sqrt(std::max(t, warmup));
  const bool warms_up = config.schedule == Schedule::warmup_rsqrt && t < warmup;
  return warms_up ? rsqrt * t / warmup : rsqrt;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters) {
  if (config.optimizer == OptimizerKind::adam) return make_adam(parameters);
  return make_adafactor(config, parameters);
}

}  // namespace scaling
