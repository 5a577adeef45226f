// Reading, writing and checking the knobs of a training run.
#include "models/train_config.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"
#include "kernels/gemm.h"

namespace scaling {
namespace {

constexpr std::int64_t kMostOffsets = std::int64_t(1) << 31;

void require_share(const char* name, double value) {
  if (!(value >= 0 && value < 1)) {
    throw UserError(std::string(name) + " " + print_value(value) +
                    " is not a share; give a number of at least 0 and below 1");
  }
}

std::vector<std::string> gemm_names() {
  std::vector<std::string> names = {"auto"};
  for (const Gemm& gemm : gemms()) names.emplace_back(gemm.name);
  return names;
}

}  // namespace

void require_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw UserError(std::string(name) + " " + std::to_string(value) +
                    " is too small; give a number of at least " + std::to_string(least));
  }
}

void require_within(const char* name, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    throw UserError(std::string(name) + " " + print_value(value) +
                    " is out of range; give a number from " + print_value(least) + " to " +
                    print_value(most));
  }
}

void TrainConfig::validate() const {
  const std::vector<std::string> known = gemm_names();
  if (std::find(known.begin(), known.end(), gemm) == known.end())
    refuse_choice("gemm", gemm, known);
  require_at_least("batch", batch, 1);
  require_at_least("accumulate", accumulate, 1);
  if (batch % accumulate != 0) {
    throw UserError("batch " + std::to_string(batch) + " is not divisible by accumulate " +
                    std::to_string(accumulate) + "; change one of the two");
  }
  require_at_least("length", length, 2);
  require_at_least("steps", steps, 0);
  if (!(learning_rate > 0)) {
    throw UserError("learning_rate " + print_value(learning_rate) +
                    " is not positive; 1 is the reference's for the schedule rsqrt");
  }
  require_at_least("warmup_steps", warmup_steps, 0);
  const bool decays = schedule == Schedule::linear || schedule == Schedule::cosine;
  if (decays && decay_steps <= warmup_steps) {
    throw UserError("decay_steps " + std::to_string(decay_steps) + " is not above warmup_steps " +
                    std::to_string(warmup_steps) + "; give the step at which schedule " +
                    print_value(schedule) + " shall end, usually steps " + std::to_string(steps));
  }
  if (!decays && decay_steps != 0) {
    throw UserError("decay_steps " + std::to_string(decay_steps) +
                    " belongs to the schedules linear and cosine, not to " + print_value(schedule) +
                    "; set decay_steps 0 or another schedule");
  }
  if (!(adam_epsilon > 0)) {
    throw UserError("adam_epsilon " + print_value(adam_epsilon) +
                    " is not positive; 1e-5 is the released code's");
  }
  for (const auto& [name, factor] :
       {std::pair("selector_rate", selector_rate), std::pair("selected_rate", selected_rate)}) {
    if (factor >= 0) continue;
    throw UserError(std::string(name) + " " + print_value(factor) +
                    " is negative; give a factor of the learning rate, 1 for that itself");
  }
  require_at_least("dense_steps", dense_steps, 0);
  require_at_least("hard_steps", hard_steps, 0);
  require_share("weight_decay", weight_decay);
  if (weight_decay > 0 && optimizer != OptimizerKind::adafactor) {
    throw UserError("weight_decay " + print_value(weight_decay) + " belongs to adafactor, not to " +
                    print_value(optimizer) + "; set weight_decay 0 or optimizer adafactor");
  }
  require_at_least("weight_decay_steps", weight_decay_steps, 0);
  require_share("dropout", dropout);
  require_within("future_weight", future_weight, 0, 1);
  require_at_least("position_offsets", position_offsets, 0);
  if (position_offsets > kMostOffsets) {
    throw UserError("position_offsets " + std::to_string(position_offsets) + " exceeds " +
                    std::to_string(kMostOffsets) + ", the most of this build; give fewer");
  }
  if (!(start_from_zero >= 0 && start_from_zero <= 1)) {
    throw UserError("start_from_zero " + print_value(start_from_zero) +
                    " is not a probability; give a number from 0 to 1");
  }
  require_at_least("evaluate_every", evaluate_every, 1);
  require_at_least("evaluate_batches", evaluate_batches, 1);
  require_at_least("checkpoint_every", checkpoint_every, 1);
}

void set_field(TrainConfig& config, const std::string& name, const std::string& value) {
  set_named_field(config, name, value);
}

std::string get_field(const TrainConfig& config, const std::string& name) {
  return get_named_field(config, name);
}

std::vector<std::string> train_field_names() { return names_of_fields<TrainConfig>(); }

}  // namespace scaling
