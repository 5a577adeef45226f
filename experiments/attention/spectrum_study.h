// Linformer's question to a trained model: of how many parts are its attentions' matrices?
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// A point is a self-attention of a checkpoint's decoder, <name>.layer1 the first: over its heads,
/// means over held-out sequences. The name ends with .untrained where nothing else was given for a
/// model before its training. Beside the records, spectrum/<name>.npy: (attentions, heads,
/// positions), shares of the largest singular values in the sum of all.
std::unique_ptr<Study> make_spectrum_study();

}  // namespace scaling
