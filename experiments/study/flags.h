// Command lines: flags as data, and what was given for them as text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/knobs.h"

namespace scaling {

struct Flag {
  std::string name, help;
  bool is_switch = false;  ///< takes no value: it is given or not
};

struct FlagGroup {
  std::string title;
  std::vector<Flag> flags;
};

/// Knobs as flags whose help tells their defaults. Those that are false until they are given are
/// switches.
std::vector<Flag> flags_of(const Knobs& knobs);

/// Flags that are given, by their names, with their texts; a switch has "true". Flags are written
/// out, with hyphens or underscores alike, and nothing stands beside them. Throws UserError for an
/// unknown flag (lists the known) and for a missing or superfluous value.
std::map<std::string, std::string> parse_flags(int argc, const char* const* argv,
                                               const std::vector<FlagGroup>& groups);

/// What --help prints.
std::string help_of(const std::vector<FlagGroup>& groups);

}  // namespace scaling
