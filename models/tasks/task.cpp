// Lengths that the model must have room for.
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

}  // namespace scaling
