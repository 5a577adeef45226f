// Boost reads the flags; what is wrong is said in our words.
#include "experiments/study/flags.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstddef>
#include <sstream>
#include <utility>

#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

po::options_description described(const FlagGroup& group) {
  po::options_description all(group.title, 100);
  for (const Flag& flag : group.flags) {
    if (flag.is_switch) {
      all.add_options()(flag.name.c_str(), flag.help.c_str());
    } else {
      all.add_options()(flag.name.c_str(), po::value<std::string>(), flag.help.c_str());
    }
  }
  return all;
}

/// A flag of one spelling may be given in the other: --time_budget for --time-budget.
std::vector<std::string> spelled_as(const po::options_description& known, int argc,
                                    const char* const* argv) {
  const auto has = [&known](const std::string& name) {
    return known.find_nothrow(name, false) != nullptr;
  };
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string& word : words) {
    if (word.rfind("--", 0) != 0) continue;
    const std::size_t end = std::min(word.find('='), word.size());
    std::string name = word.substr(2, end - 2);
    if (has(name)) continue;
    for (const auto& [from, to] : {std::pair('-', '_'), std::pair('_', '-')}) {
      std::string other = name;
      std::replace(other.begin(), other.end(), from, to);
      if (has(other)) word.replace(2, end - 2, other);
    }
  }
  return words;
}

}  // namespace

std::vector<Flag> flags_of(const Knobs& knobs) {
  std::vector<Flag> flags;
  for (const KnobInfo& knob : knobs.info()) {
    std::string help = knob.help;
    const bool is_switch = knob.initial == "false";
    if (!knob.initial.empty() && !is_switch) help += "; default " + knob.initial;
    if (knob.trait.quick) help += std::string("; with --quick ") + knob.trait.quick;
    flags.push_back({knob.name, help, is_switch});
  }
  return flags;
}

std::map<std::string, std::string> parse_flags(int argc, const char* const* argv,
                                               const std::vector<FlagGroup>& groups) {
  po::options_description all;
  for (const FlagGroup& group : groups) all.add(described(group));
  po::variables_map values;
  try {
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const po::positional_options_description none;
    po::store(po::command_line_parser(spelled_as(all, argc, argv))
                  .options(all)
                  .positional(none)
                  .style(style)
                  .run(),
              values);
  } catch (const po::unknown_option& error) {
    std::string known;
    for (const auto& flag : all.options()) known += " --" + flag->long_name();
    throw UserError("there is no flag '" + error.get_option_name() + "'; known are:" + known);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) + "; --help lists the flags");
  }
  std::map<std::string, std::string> given;
  for (const FlagGroup& group : groups) {
    for (const Flag& flag : group.flags) {
      if (!values.count(flag.name)) continue;
      given[flag.name] = flag.is_switch ? "true" : values[flag.name].as<std::string>();
    }
  }
  return given;
}

std::string help_of(const std::vector<FlagGroup>& groups) {
  std::ostringstream text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text << (i > 0 ? "\n" : "") << described(groups[i]);
  }
  return text.str();
}

}  // namespace scaling
