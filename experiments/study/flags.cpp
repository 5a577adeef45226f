// Boost reads the flags; what is wrong is said in our words.
#include "experiments/study/flags.h"

#include <sstream>

#include "kernels/check.h"

namespace scaling {

namespace po = boost::program_options;

po::variables_map parse_flags(int argc, const char* const* argv, const FlagGroups& groups) {
  po::options_description all;
  for (const po::options_description& group : groups) all.add(group);
  po::variables_map values;
  try {
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const po::positional_options_description none;
    po::store(po::command_line_parser(argc, argv).options(all).positional(none).style(style).run(),
              values);
  } catch (const po::unknown_option& error) {
    std::string known;
    for (const auto& flag : all.options()) known += " --" + flag->long_name();
    throw UserError("there is no flag '" + error.get_option_name() + "'; known are:" + known);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) + "; --help lists the flags");
  }
  return values;
}

std::string text_of(const po::variables_map& values, const std::string& flag,
                    const std::string& otherwise) {
  return values.count(flag) ? values[flag].as<std::string>() : otherwise;
}

std::string config_of(const po::variables_map& values, const char* example) {
  const std::string config = text_of(values, "config");
  if (config.empty()) {
    throw UserError(
        std::string("no experiment was given; add --config FILE, e.g. experiments/configs/") +
        example);
  }
  return config;
}

po::options_description knob_flags(const std::vector<std::string>& knobs) {
  po::options_description flags("Knobs, for all rows, over the config's", 100);
  auto add = flags.add_options();
  for (const std::string& knob : knobs) add(knob.c_str(), po::value<std::string>());
  return flags;
}

Settings given_knobs(const po::variables_map& values, const std::vector<std::string>& knobs) {
  Settings given;
  for (const std::string& knob : knobs) {
    if (values.count(knob)) given.emplace_back(knob, text_of(values, knob));
  }
  return given;
}

std::string help_of(const FlagGroups& groups) {
  std::ostringstream text;
  for (std::size_t i = 0; i < groups.size(); ++i) text << (i > 0 ? "\n" : "") << groups[i];
  return text.str();
}

}  // namespace scaling
