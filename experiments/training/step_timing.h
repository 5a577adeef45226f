// Training steps of one row, timed: what peers/compare_training.py runs in turn with other
// frameworks' steps.
#pragma once

namespace scaling {

/// `bench_training`: reads its flags, times, prints one JSON object. Exit status; throws UserError.
int run_step_timing(int argc, const char* const* argv);

}  // namespace scaling
