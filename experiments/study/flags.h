// The command line of a driver.
#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "experiments/study/row_text.h"

namespace scaling {

using FlagGroups = std::vector<boost::program_options::options_description>;

/// Values of the flags that are given or have a default. Flags are written out, and nothing stands
/// beside them. Throws UserError for an unknown flag (lists the known) and for a missing or
/// unreadable value.
boost::program_options::variables_map parse_flags(int argc, const char* const* argv,
                                                  const FlagGroups& groups);

/// The text of a flag that takes one, or `otherwise` where it is not given.
std::string text_of(const boost::program_options::variables_map& values, const std::string& flag,
                    const std::string& otherwise = "");

/// The text of --config. Throws UserError that suggests the example, a file of experiments/configs.
std::string config_of(const boost::program_options::variables_map& values, const char* example);

/// Knobs that a row may have, as flags without help.
boost::program_options::options_description knob_flags(const std::vector<std::string>& knobs);

/// Those of the knobs that are given as flags, with their values.
Settings given_knobs(const boost::program_options::variables_map& values,
                     const std::vector<std::string>& knobs);

/// What --help prints.
std::string help_of(const FlagGroups& groups);

}  // namespace scaling
