// What a training step through a stack of blocks keeps, takes and costs, measured in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/instruments/model_row.h"
#include "models/transformer/transformer.h"

namespace scaling {

struct StackSetting {
  std::string gemm;  ///< library of the products
  int threads = 1;
};

/// A decoder-only model in training, with one batch of random tokens and what a pass over it keeps.
class StackSubject {
 public:
  /// row.batch sequences of max_length tokens.
  StackSubject(const ModelRow& row, const StackSetting& setting);
  /// Seconds of one forward and backward pass with dropout; `seed` is of its draws. Gradients are
  /// those of this pass alone.
  double step(std::uint64_t seed);

  Transformer model;
  std::unique_ptr<Transformer::Kept> kept;

 private:
  const Gemm& gemm_;
  Batch batch_;
};

struct StackMemory {
  double stack_bytes = 0;        ///< that the stack keeps for its backward pass, without decisions
  double decision_bytes = 0;     ///< of these: selections and buckets that are replayed
  double second_pass_bytes = 0;  ///< that a second pass takes and does not give back
  double model_bytes = 0;        ///< weights and gradients
  double peak_memory_bytes = 0;  ///< resident, of the whole process
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StackMemory, stack_bytes, decision_bytes, second_pass_bytes,
                                   model_bytes, peak_memory_bytes)

/// Two passes. For its peak the process must not have held anything before.
StackMemory measure_stack_memory(const ModelRow& row, const StackSetting& setting);

struct StackSteps {
  std::vector<std::vector<double>> seconds;  ///< of every row, one value a repeat
  std::vector<double> flops;                 ///< of every row's step; recomputation does not count
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StackSteps, seconds, flops)

/// All rows in memory, their steps taking turns in random order, each once more to warm up.
StackSteps measure_stack_steps(const std::vector<ModelRow>& rows, const StackSetting& setting,
                               int repeats);

/// One value a seed, for the same weights, tokens and draws.
struct StackErrors {
  /// |g - h| / |h| over all parameters, g the gradients of `row`, h those of `reference`.
  std::vector<double> gradient;
  std::vector<double> reconstruction;  ///< see Stack::Kept::reconstruction_error
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StackErrors, gradient, reconstruction)

StackErrors measure_stack_errors(const ModelRow& row, const ModelRow& reference,
                                 const StackSetting& setting, int seeds);

}  // namespace scaling
