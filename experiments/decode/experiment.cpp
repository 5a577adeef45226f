// From the text of a .cfg file to checked rows.
#include "experiments/decode/experiment.h"

#include <algorithm>

#include "experiments/study/cfg_file.h"
#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

const std::vector<std::string> kDecodeKnobs = {"batch", "context", "source_length", "kernels",
                                               "own_threads"};
constexpr const char* kBf16Suffix = ".bf16";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::int64_t parse_count(const std::string& name, const std::string& value) {
  std::size_t used = 0;
  std::int64_t number = -1;
  try {
    number = std::stoll(value, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != value.size() || value.empty() || number < 0) {
    throw UserError("'" + value + "' is no value for '" + name +
                    "'; give a whole number from 0 on");
  }
  return number;
}

void set_knob(Row& row, const std::string& name, const std::string& value) {
  if (name == "batch") {
    row.batch = int(std::min<std::int64_t>(parse_count(name, value), 1 << 20));
  } else if (name == "context") {
    row.context = parse_count(name, value);
  } else if (name == "source_length") {
    row.source_length = parse_count(name, value);
  } else if (name == "kernels") {
    row.kernels = value;
  } else if (name == "own_threads") {
    if (value != "true" && value != "false" && value != "1" && value != "0") {
      throw UserError("'" + value + "' is no value for 'own_threads'; give true or false");
    }
    row.own_threads = value == "true" || value == "1";
  } else if (contains(field_names(), name)) {
    set_field(row.model, name, value);
  } else {
    throw UserError("there is no knob '" + name + "'; known are: " + joined(row_knobs()) +
                    ", and for a row 'against'");
  }
}

/// Applies settings, later ones winning, but `shape` first: a size that was given anywhere beats
/// the shape's.
void set_knobs(Row& row, const Settings& settings) {
  for (const bool shape : {true, false}) {
    for (const auto& [name, value] : settings) {
      if ((name == "shape") == shape) set_knob(row, name, value);
    }
  }
}

/// "ff: feed_forward=sparse sparsity=64" over the file's own settings.
Row parse_row(const std::string& text, const Settings& file_settings, const Settings& overrides) {
  const RowText parts = parse_row_text(text);
  Row row;
  row.name = parts.name;
  Settings own;
  for (const auto& [name, value] : parts.settings) {
    if (name == "against") {
      row.against = value;
    } else {
      own.emplace_back(name, value);
    }
  }
  try {
    Settings all = file_settings;
    all.insert(all.end(), own.begin(), own.end());
    all.insert(all.end(), overrides.begin(), overrides.end());
    set_knobs(row, all);
  } catch (const UserError& error) {
    throw UserError("row '" + row.name + "': " + error.what());
  }
  return row;
}

std::string name_for_type(std::string name, WeightType type) {
  const std::string suffix = kBf16Suffix;
  const bool has = name.size() > suffix.size() && name.ends_with(suffix);
  if (type == WeightType::bf16 && !has) return name + suffix;
  if (type != WeightType::bf16 && has) return name.substr(0, name.size() - suffix.size());
  return name;
}

/// Suffixes follow the weight types and `against` follows the names.
void settle_names(std::vector<Row>& rows) {
  if (rows.front().against.empty()) rows.front().against = rows.front().name;
  for (Row& row : rows) {
    if (row.against.empty()) row.against = rows.front().name;
  }
  const std::vector<Row> before = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    row.name = name_for_type(row.name, row.model.weight_type);
    const auto target = std::find_if(before.begin(), before.end(),
                                     [&row](const Row& r) { return r.name == row.against; });
    if (target == before.end()) {
      throw UserError("row '" + row.name + "' is compared with '" + row.against +
                      "', which is no row of this experiment");
    }
    row.against = name_for_type(target->name, target->model.weight_type);
    for (std::size_t j = 0; j < i; ++j) {
      if (rows[j].name == row.name) throw UserError("two rows have the name '" + row.name + "'");
    }
  }
}

/// What the model itself cannot know.
void check_row(const Row& row) {
  const auto refuse = [&row](const std::string& why) {
    throw UserError("row '" + row.name + "': " + why);
  };
  if (row.batch < 1 || row.batch > kMaxTokens) {
    refuse("batch is " + std::to_string(row.batch) + " but must be 1 to " +
           std::to_string(kMaxTokens));
  }
  if (row.source_length < 1) refuse("source_length must be at least 1");
  if (row.model.vocab_size < 2) {
    refuse("vocab_size is " + std::to_string(row.model.vocab_size) +
           " but must be at least 2: id 0 is padding");
  }
  const std::int64_t positions = std::max(row.context + kDecodeTokens, row.source_length);
  if (positions > row.model.max_length) {
    refuse("max_length is " + std::to_string(row.model.max_length) + " but context, source and " +
           std::to_string(kDecodeTokens) + " decoded tokens need " + std::to_string(positions) +
           "; raise max_length");
  }
  const std::vector<std::string>& libraries = library_names();
  if (row.own_threads && !contains(libraries, row.kernels)) {
    refuse("own_threads is for the kernel sets " + joined(libraries) + ", not for '" + row.kernels +
           "'");
  }
  // Sets that another machine or build may have are not a mistake; they are skipped when measuring.
  if (!contains(libraries, row.kernels) && row.kernels != "bf16_dot") find_kernel_set(row.kernels);
  try {
    row.model.validate();
  } catch (const UserError& error) {
    refuse(error.what());
  }
}

Experiment build(const CfgFile& cfg, const Settings& overrides) {
  Experiment experiment{.name = cfg.experiment, .title = cfg.title, .rows = {}};
  for (const std::string& text : cfg.rows) {
    experiment.rows.push_back(parse_row(text, cfg.settings, overrides));
  }
  settle_names(experiment.rows);
  for (const Row& row : experiment.rows) check_row(row);
  return experiment;
}

}  // namespace

std::vector<std::string> row_knobs() {
  std::vector<std::string> names = field_names();
  names.insert(names.end(), kDecodeKnobs.begin(), kDecodeKnobs.end());
  return names;
}

Settings settings_of(const Row& row) {
  Settings settings;
  for (const std::string& name : field_names())
    settings.emplace_back(name, get_field(row.model, name));
  settings.emplace_back("batch", std::to_string(row.batch));
  settings.emplace_back("context", std::to_string(row.context));
  settings.emplace_back("source_length", std::to_string(row.source_length));
  settings.emplace_back("kernels", row.kernels);
  settings.emplace_back("own_threads", row.own_threads ? "true" : "false");
  return settings;
}

Experiment parse_experiment(std::istream& in, const std::string& file, const Settings& overrides) {
  try {
    return build(parse_cfg(in, file, row_knobs()), overrides);
  } catch (const UserError& error) {
    throw UserError(file + ": " + error.what());
  }
}

Experiment read_experiment(const std::string& file, const Settings& overrides) {
  std::ifstream in = open_cfg(file, "experiments/configs");
  return parse_experiment(in, file, overrides);
}

std::vector<Row> select_rows(const Experiment& experiment, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Row& row : experiment.rows) known.push_back(row.name);
  for (const std::string& name : names) {
    if (!contains(known, name)) {
      throw UserError("experiment '" + experiment.name + "' has no row '" + name +
                      "'; known are: " + joined(known));
    }
  }
  std::vector<Row> rows;
  for (const Row& row : experiment.rows) {
    if (names.empty() || contains(names, row.name)) rows.push_back(row);
  }
  return rows;
}

}  // namespace scaling
