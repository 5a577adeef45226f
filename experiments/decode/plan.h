// What will be measured, what is already there, and how long it may take: known before memory is
// taken.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/decode/options.h"
#include "experiments/study/record.h"
#include "models/transformer/transformer.h"

namespace scaling {

struct PlannedRow {
  Row row;
  std::unique_ptr<Transformer> model;  ///< shapes only, until it is its turn
  std::string unavailable;     ///< why this build or machine has no such kernel set, or empty
  std::vector<int> to_do;      ///< thread counts
  std::vector<int> finished;   ///< thread counts already in the records
  std::uint64_t bytes = 0;     ///< weights and caches
  double load_seconds = 0;     ///< estimate
  double measure_seconds = 0;  ///< estimate for one thread count
};

using Plan = std::vector<PlannedRow>;

/// Builds every model's shapes. Throws UserError if one cannot exist at all. `file` may be null:
/// nothing is finished then.
Plan make_plan(const Experiment& experiment, const std::vector<Row>& rows, const Options& options,
               const Provenance& provenance, const RecordFile* file);

double estimated_seconds(const Plan& plan);

/// Rows, what is left to do, estimated time.
std::string plan_text(const Experiment& experiment, const Plan& plan, const Options& options);
/// For --dry-run: every knob, parameter counts, bytes and costs of every row.
std::string cost_text(const Plan& plan);

}  // namespace scaling
