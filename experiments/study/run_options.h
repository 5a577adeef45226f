// The command line of a study: flags that all studies have, its own, and knobs of its rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/knobs.h"

namespace scaling {

class Study;

struct RunOptions {
  std::string config;
  std::vector<std::string> rows;    ///< empty: all
  std::vector<int> threads;         ///< each once, ascending
  std::string results;              ///< empty: results/local/<machine>
  std::vector<std::string> accept;  ///< commits whose results count as this one's
  std::uint64_t shard = 0, shards = 1;
  bool force = false, quick = false, dry_run = false, where = false, help = false;
  Settings given;      ///< the study's own flags, as they were given
  Settings overrides;  ///< knobs of rows, as they were given
};

/// Sets the study's own flags, too: as given, else by their value under --quick, else as they are.
/// Throws UserError for an unknown flag (lists the known) and for missing or unreadable values.
RunOptions parse_run_options(Study& study, int argc, const char* const* argv);

/// What --help prints.
std::string help_of(Study& study);

}  // namespace scaling
