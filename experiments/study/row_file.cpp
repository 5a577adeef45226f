// Boost reads the lines; what is wrong is said in our words.
#include "experiments/study/row_file.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "models/knobs.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

using Texts = std::vector<std::string>;

const Texts kNames = {"experiment", "title", "id", "section"};

Texts names_of(const std::vector<KnobInfo>& knobs) {
  Texts names;
  for (const KnobInfo& knob : knobs) names.push_back(knob.name);
  return names;
}

bool is_word(const std::string& name, const std::string& others) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [&others](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || others.find(c) != std::string::npos;
  });
}

bool contains(const Texts& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

po::variables_map read_lines(std::istream& in, const Texts& knobs) {
  // Outlives `parsed`, which points to it.
  po::options_description known;
  auto add = known.add_options();
  for (const Texts* names : {&kNames, &knobs}) {
    for (const std::string& name : *names) add(name.c_str(), po::value<std::string>());
  }
  add("row", po::value<Texts>()->composing());
  po::variables_map values;
  try {
    const po::parsed_options parsed = po::parse_config_file(in, known, true);
    for (const auto& option : parsed.options) {
      if (!option.unregistered) continue;
      throw UserError("there is no knob '" + option.string_key + "'; known are: " + joined(kNames) +
                      ", row, " + joined(knobs));
    }
    po::store(parsed, values);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) +
                    "; write one 'knob = value' a line, each knob once");
  }
  return values;
}

/// "ff: feed_forward=sparse sparsity=64", after the settings of all rows and before the command
/// line's.
FileRow parse_row(const std::string& text, const Texts& knobs, const Settings& common,
                  const Settings& overrides) {
  FileRow row{"", common};
  const std::size_t colon = text.find(':');
  std::istringstream before(text.substr(0, colon));
  std::string more;
  before >> row.name >> more;
  if (!is_word(row.name, "_.-")) {
    throw UserError("'" + text + "' has no row name; write 'row = name: knob=value knob=value'");
  }
  if (!more.empty()) {
    throw UserError("row '" + row.name + "' has '" + more +
                    "' before its colon; write 'row = name: knob=value knob=value'");
  }
  std::istringstream words(colon == std::string::npos ? "" : text.substr(colon + 1));
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw UserError("row '" + row.name + "' has '" + word + "', which is not knob=value");
    }
    const std::string knob = word.substr(0, equals);
    if (!contains(knobs, knob)) {
      throw UserError("row '" + row.name + "': there is no knob '" + knob +
                      "'; known are: " + joined(knobs));
    }
    if (contains(row.own, knob)) {
      throw UserError("row '" + row.name + "' sets '" + knob + "' twice; leave one of them");
    }
    row.settings.emplace_back(knob, word.substr(equals + 1));
    row.own.push_back(knob);
  }
  row.settings.insert(row.settings.end(), overrides.begin(), overrides.end());
  std::stable_partition(row.settings.begin(), row.settings.end(),
                        [](const auto& setting) { return setting.first == "shape"; });
  return row;
}

RowFile parse(std::istream& in, const std::string& path, const Texts& knobs,
              const Settings& overrides) {
  const po::variables_map values = read_lines(in, knobs);
  const auto text = [&values](const std::string& name, const std::string& otherwise = "") {
    return values.count(name) ? values[name].as<std::string>() : otherwise;
  };
  RowFile file;
  file.path = path;
  file.experiment = text("experiment", std::filesystem::path(path).stem().string());
  if (!is_word(file.experiment, "_")) {
    throw UserError("the experiment's name '" + file.experiment +
                    "' names a file, so use letters, digits and _ only");
  }
  file.title = text("title");
  file.id = text("id");
  file.section = text("section");
  if (!values.count("row")) throw UserError("it has no rows; write 'row = name: knob=value'");
  Settings common;
  for (const std::string& knob : knobs) {
    if (values.count(knob)) common.emplace_back(knob, text(knob));
  }
  for (const std::string& row : values["row"].as<Texts>()) {
    file.rows.push_back(parse_row(row, knobs, common, overrides));
    for (std::size_t i = 0; i + 1 < file.rows.size(); ++i) {
      if (file.rows[i].name != file.rows.back().name) continue;
      throw UserError("two rows have the name '" + file.rows[i].name + "'");
    }
  }
  return file;
}

}  // namespace

void RowFile::refuse(const std::string& row, const std::string& why) const {
  throw UserError(path + ": row '" + row + "': " + why);
}

RowFile parse_row_file(std::istream& in, const std::string& path,
                       const std::vector<KnobInfo>& knobs, const Settings& overrides) {
  try {
    return parse(in, path, names_of(knobs), overrides);
  } catch (const UserError& error) {
    throw UserError(path + ": " + error.what());
  }
}

RowFile read_row_file(const std::string& path, const std::vector<KnobInfo>& knobs,
                      const Settings& overrides) {
  std::ifstream in(path);
  if (!in || std::filesystem::is_directory(path)) {
    throw UserError("the config '" + path +
                    "' cannot be read; those of the project are in experiments/configs");
  }
  return parse_row_file(in, path, knobs, overrides);
}

bool is_wanted(const std::vector<std::string>& wanted, const std::string& row) {
  return wanted.empty() || contains(wanted, row);
}

void require_known_rows(const std::vector<std::string>& wanted,
                        const std::vector<std::string>& known, const std::string& experiment) {
  for (const std::string& name : wanted) {
    if (contains(known, name)) continue;
    throw UserError("experiment '" + experiment + "' has no row '" + name +
                    "'; known are: " + joined(known));
  }
}

}  // namespace scaling
