// Adafactor by the rule of paper 9.3: running squares of gradients, factored.
#pragma once

#include <memory>
#include <vector>

#include "models/training/optimizer.h"

namespace scaling {

/// Parameters of two logical axes or more keep mean squares over the last axis (R) and over the
/// last but one (C), each of the leading axes' indices for itself; vectors keep every square.
/// Parameters may be stored with any strides that fill their matrix, in up to four axes.
std::unique_ptr<Optimizer> make_adafactor(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters);

}  // namespace scaling
