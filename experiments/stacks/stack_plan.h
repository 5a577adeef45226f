// What the driver `reversibility` measures: its flags, and the depths and batches of every row.
#pragma once

#include <string>
#include <vector>

#include "experiments/decode/experiment.h"
#include "experiments/study/record.h"

namespace scaling {

struct StackOptions {
  std::string config;
  std::vector<std::string> rows;              ///< empty: all
  std::vector<std::int64_t> depths, batches;  ///< ascending, each once
  int threads = 1;
  int repeats = 0;
  std::string results;  ///< empty: results/local/<machine>
  bool force = false, quick = false, dry_run = false, help = false;
  Settings overrides;
};

/// Throws UserError for an unknown flag (lists the known) or an unreadable value.
StackOptions parse_stack_options(int argc, const char* const* argv);
std::string stack_help();

/// Rows that are measured together at one depth and batch, their names ending in
/// _d<depth>_b<batch>.
struct StackGroup {
  /// steps: memory and time of a training step. gradients: distance from those of the reference.
  enum class Kind { steps, gradients };
  Kind kind = Kind::steps;
  Row reference;          ///< what all rows are `against`
  std::vector<Row> rows;  ///< for steps the reference too, unless it was not selected
};

/// Rows against a plain stack get steps, at every depth with their own batch and at every batch
/// with their own decoder_layers; rows against a stored one get gradients at every depth. Throws
/// UserError for rows against a stack that is neither, with an encoder, or with an impossible depth
/// or batch.
std::vector<StackGroup> stack_groups(const Experiment& experiment, const StackOptions& options);

/// Written last of a row's numbers.
const char* closing_metric(StackGroup::Kind kind);

/// What the records of a row share.
Record stack_record(const Experiment& experiment, const Row& row, const StackOptions& options,
                    const Provenance& provenance);

}  // namespace scaling
