// Who sees whom in each attention, as arrays that other programs read.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// A point is a row. Beside the records, in patterns/<experiment>/ of their folder: <row>.graph.npy
/// (layers, heads, queries, keys), 0 or 1; <row>.weights.npy, the same in f32; <row>.density.npy,
/// .entropy.npy and .distance.npy (layers, heads).
std::unique_ptr<Study> make_patterns_study();

}  // namespace scaling
