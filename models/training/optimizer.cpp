// Schedules, and which rule a name stands for.
#include "models/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/check.h"
#include "models/training/adafactor.h"
#include "models/training/adam.h"

namespace scaling {
namespace {

/// Another optimiser for what is learnt by gradients, beside it parameters that have a mean_decay.
class WithRunningMeans : public Optimizer {
 public:
  WithRunningMeans(std::unique_ptr<Optimizer> of_weights, std::vector<Parameter*> means)
      : of_weights_(std::move(of_weights)), means_(std::move(means)) {}

  void update(std::int64_t step, double learning_rate) override {
    of_weights_->update(step, learning_rate);
    for (Parameter* p : means_) {
      if (p->gradient == nullptr) continue;
      const auto decay = float(p->mean_decay), rest = float(1 - p->mean_decay);
      float* values = p->values();
      for (std::int64_t i = 0; i < p->count(); ++i) {
        values[i] = decay * values[i] + rest * p->gradient[i];
      }
    }
  }
  /// The means' state is their values.
  std::vector<Slot> slots() override { return of_weights_->slots(); }

 private:
  const std::unique_ptr<Optimizer> of_weights_;
  const std::vector<Parameter*> means_;
};

}  // namespace

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
  const double t = double(step), warmup = double(config.warmup_steps);
  const bool rises = is_warming_up(config, step);
  // The share of the decay that is left.
  const double end = double(config.decay_steps);
  const double left = end > warmup ? std::clamp((end - t) / (end - warmup), 0.0, 1.0) : 0;
  switch (config.schedule) {
    case Schedule::constant:
      return config.learning_rate;
    case Schedule::linear:
      return config.learning_rate * (rises ? t / warmup : left);
    case Schedule::cosine:
      return config.learning_rate *
             (rises ? t / warmup : (1 - std::cos(std::numbers::pi * left)) / 2);
    case Schedule::rsqrt:
    case Schedule::warmup_rsqrt:
      break;
  }
  const double rsqrt = config.learning_rate / std::sqrt(std::max(t, warmup));
  return rises ? rsqrt * t / warmup : rsqrt;
}

double rate_factor(const TrainConfig& config, const Parameter& parameter) {
  switch (parameter.role) {
    case Role::selector:
      return config.selector_rate;
    case Role::selected:
      return config.selected_rate;
    case Role::ordinary:
      break;
  }
  return 1;
}

bool is_warming_up(const TrainConfig& config, std::int64_t step) {
  const bool has_ramp = config.schedule != Schedule::rsqrt && config.schedule != Schedule::constant;
  return has_ramp && step < config.warmup_steps;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters) {
  std::vector<Parameter*> weights, means;
  for (Parameter* p : parameters) (p->mean_decay != 0 ? means : weights).push_back(p);
  auto of_weights = config.optimizer == OptimizerKind::adam ? make_adam(config, weights)
                                                            : make_adafactor(config, weights);
  if (means.empty()) return of_weights;
  return std::make_unique<WithRunningMeans>(std::move(of_weights), std::move(means));
}

}  // namespace scaling
