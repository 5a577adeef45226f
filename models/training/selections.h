// How the selections of a trained model behave.
#pragma once

#include <cmath>

#include "models/tasks/task.h"
#include "models/transformer/transformer.h"

namespace scaling {

/// Not numbers where they are unknown.
struct SelectionNumbers {
  /// Log-perplexity with hard minus that with soft selections, on the same validation batches.
  double hard_soft_gap = std::nan("");
  double entropy = std::nan("");  ///< of the soft ones, nats
};

/// Diagnoses a model whose feed-forward selects by a learned distribution; numbers of others stay
/// unknown, and of models for whose second copy there is no memory; large ones are not tried.
/// Neither weights nor gradients of `model` change.
SelectionNumbers diagnose_selections(Transformer& model, const Task& task, const Gemm& gemm,
                                     int threads);

}  // namespace scaling
