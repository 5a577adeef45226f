// The command line of a driver.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

namespace scaling {

using FlagGroups = std::vector<boost::program_options::options_description>;

/// Values of the flags that are given or have a default. Flags are written out, and nothing stands
/// beside them. Throws UserError for an unknown flag (lists the known) and for a missing or
/// unreadable value.
boost::program_options::variables_map parse_flags(int argc, const char* const* argv,
                                                  const FlagGroups& groups);

/// What --help prints.
std::string help_of(const FlagGroups& groups);

}  // namespace scaling
