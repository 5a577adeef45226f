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
  if (config.schedule == "constant") return config.learning_rate;
  const double t = double(step), warmup = double(config.warmup_steps);
  const double rsqrt = config.learning_rate / std::sqrt(std::max(t, warmup));
  if (config.schedule == "rsqrt") return rsqrt;
  if (config.schedule == "warmup_rsqrt") return t < warmup ? rsqrt * t / warmup : rsqrt;
  throw UserError("unknown schedule '" + config.schedule +
                  "'; known: rsqrt, warmup_rsqrt, constant");
}

std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters) {
  if (config.optimizer == "adafactor") return make_adafactor(config, parameters);
  if (config.optimizer == "adam") return make_adam(parameters);
  throw UserError("unknown optimizer '" + config.optimizer + "'; known: adafactor, adam");
}

}  // namespace scaling
