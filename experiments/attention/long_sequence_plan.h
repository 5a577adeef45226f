// What the driver `long_sequence` measures: its flags, and what its records share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/decode/experiment.h"
#include "experiments/study/record.h"

namespace scaling {

struct LongSequenceOptions {
  std::string config;
  std::vector<std::int64_t> lengths;  ///< ascending, each once
  int threads = 1;
  int repeats = 0;        ///< of a length, at most
  double seconds = 0;     ///< for the repeats of a length
  double step_limit = 0;  ///< seconds: a training step expected to take longer is skipped
  std::int64_t recall_length = 0;
  std::vector<std::int64_t> recall_rounds, recall_chunks;
  std::string results;  ///< empty: results/local/<machine>
  bool force = false, quick = false, dry_run = false, help = false;
  Settings overrides;
};

/// Throws UserError for an unknown flag (lists the known) or an unreadable value.
LongSequenceOptions parse_long_sequence_options(int argc, const char* const* argv);
std::string long_sequence_help();

/// Written last of a row's numbers.
inline constexpr const char* kClosingCoreMetric = "step_ms";
inline constexpr const char* kClosingRecallMetric = "recall";

/// What the records of a row at one length share; its name becomes <row>_l<length>.
Record core_record(const Experiment& experiment, const Row& row, std::int64_t length,
                   const LongSequenceOptions& options, const Provenance& provenance);

/// What the records of one setting of the recall share: <distribution>_c<chunk>_r<rounds>.
Record recall_record(const Experiment& experiment, const ModelConfig& model,
                     const std::string& distribution, const LongSequenceOptions& options,
                     const Provenance& provenance);

}  // namespace scaling
