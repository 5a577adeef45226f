// Boost reads the lines; what is wrong is said in our words.
#include "experiments/study/cfg_file.h"

#include <boost/program_options.hpp>
#include <filesystem>

#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

using Texts = std::vector<std::string>;

po::options_description known_lines(const Texts& knobs) {
  po::options_description known;
  auto add = known.add_options();
  add("experiment", po::value<std::string>());
  add("title", po::value<std::string>());
  add("row", po::value<Texts>()->composing());
  for (const std::string& knob : knobs) add(knob.c_str(), po::value<std::string>());
  return known;
}

po::variables_map read_lines(std::istream& in, const Texts& knobs) {
  // Outlives `parsed`, which points to it.
  const po::options_description known = known_lines(knobs);
  po::variables_map values;
  try {
    const po::parsed_options parsed = po::parse_config_file(in, known, true);
    for (const auto& option : parsed.options) {
      if (!option.unregistered) continue;
      throw UserError("there is no knob '" + option.string_key +
                      "'; known are: experiment, title, row, " + joined(knobs));
    }
    po::store(parsed, values);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) +
                    "; write one 'knob = value' a line, each knob once");
  }
  return values;
}

}  // namespace

std::string CfgFile::setting(const std::string& name, const std::string& fallback) const {
  for (const auto& [knob, value] : settings) {
    if (knob == name) return value;
  }
  return fallback;
}

CfgFile parse_cfg(std::istream& in, const std::string& file, const Texts& knobs) {
  const po::variables_map values = read_lines(in, knobs);
  const auto text = [&values](const std::string& name) {
    return values.count(name) ? values[name].as<std::string>() : std::string();
  };
  CfgFile cfg;
  cfg.experiment =
      values.count("experiment") ? text("experiment") : std::filesystem::path(file).stem().string();
  check_experiment_name(cfg.experiment);
  cfg.title = text("title");
  if (!values.count("row")) throw UserError("it has no rows; write 'row = name: knob=value'");
  cfg.rows = values["row"].as<Texts>();
  for (const std::string& knob : knobs) {
    if (values.count(knob)) cfg.settings.emplace_back(knob, text(knob));
  }
  return cfg;
}

std::ifstream open_cfg(const std::string& file, const char* folder) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) {
    throw UserError("the config '" + file + "' cannot be read; those of the project are in " +
                    folder);
  }
  return in;
}

}  // namespace scaling
