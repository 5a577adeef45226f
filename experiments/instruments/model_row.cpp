// From the settings of a file's rows to models.
#include "experiments/instruments/model_row.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {
namespace {

ModelRow parsed(const FileRow& from) {
  ModelRow row;
  row.name = from.name;
  for (const auto& [name, value] : from.settings) {
    if (name == "against") {
      row.against = value;
    } else if (name == "batch") {
      parse_value(name, value, row.batch);
    } else {
      set_field(row.model, name, value);
    }
  }
  if (row.batch < 1) {
    throw UserError("batch is " + std::to_string(row.batch) + " but must be at least 1");
  }
  validate(row.model);
  return row;
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
  for (ModelRow& row : rows) {
    if (row.against.empty()) row.against = rows.front().name;
    if (std::none_of(rows.begin(), rows.end(),
                     [&row](const ModelRow& other) { return other.name == row.against; })) {
      file.refuse(row.name,
                  "it is compared with '" + row.against + "', which is no row of this experiment");
    }
  }
  return rows;
}

}  // namespace scaling
