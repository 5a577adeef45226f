// Lengths that the model must have room for, and recipes as text.
#include "models/tasks/task.h"

#include <algorithm>

namespace scaling {

Lengths Needs::longest() const {
  return {std::max(trained.source, evaluated.source), std::max(trained.input, evaluated.input)};
}

std::int64_t Needs::positions(const TrainConfig& config) const {
  const Lengths all = longest();
  const std::int64_t moved = std::max(trained.source, trained.input) +
                             std::max<std::int64_t>(config.position_offsets, 1) - 1;
  return std::max({all.source, all.input, moved});
}

std::string recipe_of(const TrainConfig& config, std::span<const char* const> knobs) {
  std::string recipe;
  for (const char* knob : knobs) {
    if (!recipe.empty()) recipe += ' ';
    recipe += std::string(knob) + "=" + get_field(config, knob);
  }
  return recipe;
}

}  // namespace scaling
