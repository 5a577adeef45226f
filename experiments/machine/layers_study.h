// One decode step of every layer of every component, over more weights than the last cache level
// holds; names are component:layer/weight type/t<threads>.
#pragma once

#include <memory>

#include "experiments/machine/stopwatch.h"

namespace scaling {

std::unique_ptr<StopwatchStudy> make_layer_study();

}  // namespace scaling
