// Sparsefinder offline: which predicted graphs cover how much of a trained model's gold graphs.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// Points are a teacher's gold graphs and its methods (methods.h): <name>.gold, <name>.<method>.
std::unique_ptr<Study> make_sparsefinder_study();

}  // namespace scaling
