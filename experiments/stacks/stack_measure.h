// What a training step through a stack of blocks keeps, takes and costs, measured in this process.
// A row is a decoder-only model in training with one batch of random tokens: row.batch sequences of
// max_length. `gemm` is the library of the products.
#pragma once

#include <string>
#include <vector>

#include "experiments/instruments/model_row.h"
#include "experiments/study/point.h"

namespace scaling {

/// Bytes after two passes, the peak only where the system tells it. For the peak the process must
/// not have held anything before.
///   decision_bytes     selections and buckets that are replayed
///   model_bytes        weights and gradients
///   peak_memory_bytes  resident, of the whole process
///   second_pass_bytes  that a second pass takes and does not give back
///   stack_bytes        that the stack keeps for its backward pass, without decisions
std::vector<Metric> measure_stack_memory(const ModelRow& row, const std::string& gemm, int threads);

/// Seconds of every row's steps, one value a repeat. All rows are in memory, their steps taking
/// turns in random order, each once more to warm up.
std::vector<std::vector<double>> measure_stack_steps(const std::vector<ModelRow>& rows,
                                                     const std::string& gemm, int threads,
                                                     int repeats);

/// One value a seed, for the same weights, tokens and draws: reconstruction_error, see
/// Stack::Kept::reconstruction_error, and gradient_error, |g - h| / |h| over all parameters, g the
/// gradients of `row`, h those of `reference`.
std::vector<Metric> measure_stack_errors(const ModelRow& row, const ModelRow& reference,
                                         const std::string& gemm, int threads, int seeds);

}  // namespace scaling
