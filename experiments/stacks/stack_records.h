// From a group of rows to records: what the driver `reversibility` writes.
#pragma once

#include <string>
#include <vector>

#include "experiments/stacks/stack_plan.h"

namespace scaling {

/// The fastest linked library for products, and its rate on a large one (quick: a smaller one): the
/// ceiling of mfu.
struct Library {
  std::string name;
  double gflops = 0;
};
Library fastest_library(int threads, bool quick);

/// Measures rows in processes of their own (see in_child), so that nothing stays behind.
class StackMeasurement {
 public:
  /// All but the library outlive this.
  StackMeasurement(const Experiment& experiment, const StackOptions& options,
                   const Provenance& provenance, Library library);

  /// steps: for every row stack_bytes, decision_bytes, second_pass_bytes, model_bytes,
  /// peak_memory_bytes, step_flops, gemm_gflops, mfu, step_ms. gradients: reconstruction_error,
  /// gradient_error. Throws
  /// UserError if one of them cannot be measured.
  std::vector<Record> measure(const StackGroup& group) const;
  /// A failed record for every row.
  std::vector<Record> failures(const StackGroup& group, const std::string& why) const;

 private:
  Record record(const Row& row, const std::string& metric, const std::string& unit,
                const std::vector<double>& values) const;
  std::vector<Record> measure_steps(const StackGroup& group) const;
  std::vector<Record> measure_gradients(const StackGroup& group) const;

  const Experiment& experiment_;
  const StackOptions& options_;
  const Provenance& provenance_;
  const Library library_;
};

}  // namespace scaling
