// Sparsefinder on the clock: what attentions that predict their pairs take, beside full ones.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// Points are a teacher's full attention with softmax and with its own normaliser, and each model
/// of it that `sparsefinder --models` wrote: <name>.full_softmax, <name>.full_entmax15,
/// <name>.<method>.<place>.
std::unique_ptr<Study> make_sparsefinder_time_study();

}  // namespace scaling
