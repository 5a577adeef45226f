// The flags of decode_time.
#pragma once

#include <string>
#include <vector>

#include "experiments/decode/experiment.h"

namespace scaling {

enum class Protocol { steady, paper };
inline const char* name_of(Protocol protocol) {
  return protocol == Protocol::steady ? "steady" : "paper";
}

struct Options {
  std::string config;
  std::vector<std::string> rows;  ///< empty: all
  std::vector<int> threads;       ///< each once, ascending
  Protocol protocol = Protocol::steady;
  std::string results;     ///< empty: results/local/<machine>
  double time_budget = 0;  ///< seconds of measuring per row and thread count
  bool force = false, quick = false, pin = false, dry_run = false, where = false, help = false;
  Settings overrides;
};

/// Throws UserError for an unknown flag (lists the known) or an unreadable value.
Options parse_options(int argc, const char* const* argv);
std::string help_text();

/// The command line that measures one row again.
std::string command_of(const Options& options, const std::string& row, int threads);

}  // namespace scaling
