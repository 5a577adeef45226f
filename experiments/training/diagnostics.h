// What a finished curve tells beside its perplexity: how its selections behave.
#pragma once

#include "experiments/training/metrics.h"
#include "models/tasks/task.h"
#include "models/transformer/transformer.h"

namespace scaling {

/// Fills result->hard_soft_gap (log-perplexity with hard minus that with soft selections, on the
/// same validation batches) and selection_entropy, where a feed-forward selects by a learned
/// distribution. Takes the model's memory once more, so that only models that are small are
/// diagnosed. Neither weights nor gradients of `model` change.
void diagnose_selections(Transformer& model, const Task& task, const TrainConfig& train,
                         int threads, CurveResult* result);

}  // namespace scaling
