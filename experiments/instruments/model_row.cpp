// From the settings of a file's rows to models.
#include "experiments/instruments/model_row.h"

#include <algorithm>
#include <set>

#include "kernels/check.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

constexpr const char* kBf16Suffix = ".bf16";

ModelRow parsed(const FileRow& from) {
  ModelRow row{.name = from.name, .against = {}, .model = {}, .rest = {}};
  const auto is_models = [names = field_names()](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& [name, value] : from.settings) {
    if (name == "against") {
      row.against = value;
    } else if (name == "batch") {
      parse_value(name, value, row.batch);
    } else if (is_models(name)) {
      set_field(row.model, name, value);
    } else {
      row.rest.emplace_back(name, value);
    }
  }
  if (row.batch < 1) {
    throw UserError("batch is " + std::to_string(row.batch) + " but must be at least 1");
  }
  validate(row.model);
  // What the file says for all rows may be of use to some of them only.
  for (const std::string& name : from.own) {
    if (is_models(name)) require_relevant(row.model, name);
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
void settle_names(const RowFile& file, std::vector<ModelRow>& rows) {
  const std::vector<ModelRow> before = rows;
  std::set<std::string> names;
  for (ModelRow& row : rows) {
    if (row.against.empty()) row.against = before.front().name;
    const auto target = std::find_if(before.begin(), before.end(),
                                     [&row](const ModelRow& r) { return r.name == row.against; });
    if (target == before.end()) {
      file.refuse(row.name,
                  "it is compared with '" + row.against + "', which is no row of this experiment");
    }
    row.against = name_for_type(target->name, target->model.weight_type);
    row.name = name_for_type(row.name, row.model.weight_type);
    if (!names.insert(row.name).second) {
      file.refuse(row.name, "two rows have this name, once it says the type of their weights");
    }
  }
}

}  // namespace

std::vector<KnobInfo> model_row_knobs() {
  std::vector<KnobInfo> all = all_knobs();
  for (KnobInfo& knob : all) knob.initial = get_field({}, knob.name);
  all.push_back({"batch", "sequences at once", "1"});
  all.push_back({"against", "row that a row is compared with; default: the first", ""});
  return all;
}

std::vector<ModelRow> model_rows(const RowFile& file) {
  std::vector<ModelRow> rows;
  for (const FileRow& row : file.rows) {
    try {
      rows.push_back(parsed(row));
    } catch (const UserError& error) {
      file.refuse(row.name, error.what());
    }
  }
  settle_names(file, rows);
  return rows;
}

Settings settings_of(const ModelRow& row) {
  Settings settings;
  for (const std::string& name : field_names()) {
    settings.emplace_back(name, get_field(row.model, name));
  }
  settings.emplace_back("batch", std::to_string(row.batch));
  return settings;
}

Point point_of(const ModelRow& row, int threads, Settings own, const Settings& more) {
  Point point;
  point.row = row.name;
  point.against = row.against;
  point.threads = threads;
  point.seed = row.model.seed;
  point.settings = std::move(own);
  point.settings.insert(point.settings.end(), more.begin(), more.end());
  return point;
}

bool is_relevant(const std::string& setting, const Settings& all) {
  const std::vector<std::string> names = field_names(), components = component_names();
  if (std::find(names.begin(), names.end(), setting) == names.end()) return true;
  ModelConfig model;
  for (const auto& [name, value] : all) {
    if (std::find(components.begin(), components.end(), name) != components.end()) {
      set_field(model, name, value);
    }
  }
  return is_relevant(model, setting);
}

}  // namespace scaling
