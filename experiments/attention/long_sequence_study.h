// Attentions against the length of the sequence: time and memory between the projections.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// Length after length; the name of a point is <row>_l<length>. A row whose shorter lengths say
/// that this one would take too long or too much memory is skipped.
std::unique_ptr<Study> make_long_sequence_study();

}  // namespace scaling
