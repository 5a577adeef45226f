// Decode steps of attentions against cached positions: time, floor and cache between projections.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// The name of a point is <row>_c<cached positions>; rows of as many positions take turns.
std::unique_ptr<Study> make_attention_decode_study();

}  // namespace scaling
