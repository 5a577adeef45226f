// The flags of perplexity.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/training/curves.h"

namespace scaling {

struct TrainingOptions {
  std::string config;
  std::vector<std::string> rows;     ///< empty: all
  std::vector<std::uint64_t> seeds;  ///< empty: the config's
  int threads = 1;
  std::string results;  ///< empty: results/local/<machine>
  std::string scratch;  ///< empty: see prepare_scratch_dir
  bool force = false, resume = false, dry_run = false, check = false, where = false, help = false;
  Settings overrides;
};

/// Throws UserError for an unknown flag (lists the known) or an unreadable value.
TrainingOptions parse_training_options(int argc, const char* const* argv);
std::string training_help();

/// Folder of checkpoints and tokenised corpora: `chosen`, or the folder of records, or, if that is
/// the published one, results/local/<machine>/published. Made; throws UserError if it cannot be.
std::string prepare_scratch_dir(const TrainingOptions& options, const std::string& results,
                                const std::string& machine);

/// Whether the knob's value is a place on this machine.
bool is_path(const std::string& knob);
/// A knob's value as records and commands state it: places as portable_path does.
std::string portable_value(const std::string& knob, const std::string& value);

/// The command line that trains one curve again.
std::string command_of(const TrainingOptions& options, const std::string& row, std::uint64_t seed);

}  // namespace scaling
