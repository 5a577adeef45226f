// Adam as the released code's framework has it: bias corrections of step + 1.
#pragma once

#include <memory>
#include <vector>

#include "models/training/optimizer.h"

namespace scaling {

/// m = b1 m + (1 - b1) G;  v = b2 v + (1 - b2) G^2;
/// W -= lr m / (1 - b1^(t+1)) / (sqrt(v / (1 - b2^(t+1))) + eps), steps t = 1, 2, ...;
/// b1 = 0.9, b2 = 0.999, eps = adam_epsilon, lr times rate_factor of the parameter. No weight
/// decay. Throws UserError if the two moments of every weight do not fit into memory.
std::unique_ptr<Optimizer> make_adam(const TrainConfig& config,
                                     const std::vector<Parameter*>& parameters);

}  // namespace scaling
