// From the settings of a file's rows to checked rows.
#include "experiments/decode/decode_row.h"

#include <algorithm>

#include "experiments/study/row_text.h"
#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

constexpr const char* kAgainst = "against";
constexpr const char* kBf16Suffix = ".bf16";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

DecodeRow parsed(const FileRow& from) {
  DecodeRow row{.name = from.name, .against = {}, .model = {}, .decode = {}};
  Knobs decode;
  decode.add(row.decode);
  for (const auto& [name, value] : from.settings) {
    if (name == kAgainst) {
      row.against = value;
    } else if (decode.has(name)) {
      decode.set(name, value);
    } else {
      set_field(row.model, name, value);
    }
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
void settle_names(const RowFile& file, std::vector<DecodeRow>& rows) {
  const std::vector<DecodeRow> before = rows;
  std::vector<std::string> names;
  for (DecodeRow& row : rows) {
    if (row.against.empty()) row.against = before.front().name;
    const auto target = std::find_if(before.begin(), before.end(),
                                     [&row](const DecodeRow& r) { return r.name == row.against; });
    if (target == before.end()) {
      file.refuse(row.name,
                  "it is compared with '" + row.against + "', which is no row of this experiment");
    }
    row.against = name_for_type(target->name, target->model.weight_type);
    row.name = name_for_type(row.name, row.model.weight_type);
    if (contains(names, row.name)) {
      file.refuse(row.name, "two rows have this name, once it says the type of their weights");
    }
    names.push_back(row.name);
  }
}

/// What the model itself cannot know.
void check(const DecodeRow& row) {
  const DecodeKnobs& knobs = row.decode;
  if (knobs.batch < 1 || knobs.batch > kMaxTokens) {
    throw UserError("batch is " + std::to_string(knobs.batch) + " but must be 1 to " +
                    std::to_string(kMaxTokens));
  }
  if (knobs.context < 0) {
    throw UserError("context is " + std::to_string(knobs.context) + " but must be 0 or more");
  }
  if (knobs.source_length < 1) throw UserError("source_length must be at least 1");
  if (row.model.vocab_size < 2) {
    throw UserError("vocab_size is " + std::to_string(row.model.vocab_size) +
                    " but must be at least 2: id 0 is padding");
  }
  const std::int64_t positions = std::max(capacity_of(row), knobs.source_length);
  if (positions > row.model.max_length) {
    throw UserError("max_length is " + std::to_string(row.model.max_length) +
                    " but context, source and " + std::to_string(kDecodeTokens) +
                    " decoded tokens need " + std::to_string(positions) + "; raise max_length");
  }
  const std::vector<std::string>& libraries = library_names();
  if (knobs.own_threads && !contains(libraries, knobs.kernels)) {
    throw UserError("own_threads is for the kernel sets " + joined(libraries) + ", not for '" +
                    knobs.kernels + "'");
  }
  // Sets that another machine or build may have are not a mistake; they are skipped when measuring.
  if (!contains(libraries, knobs.kernels) && knobs.kernels != "bf16_dot") {
    find_kernel_set(knobs.kernels);
  }
  validate(row.model);
}

}  // namespace

std::vector<KnobInfo> decode_row_knobs() {
  std::vector<KnobInfo> all = all_knobs();
  for (KnobInfo& knob : all) knob.initial = get_field({}, knob.name);  // auto for blocks
  const std::vector<KnobInfo> decode = knobs_of<DecodeKnobs>();
  all.insert(all.end(), decode.begin(), decode.end());
  all.push_back({kAgainst, "row whose time is divided by this one's; default: the first", ""});
  return all;
}

std::vector<DecodeRow> decode_rows(const RowFile& file) {
  std::vector<DecodeRow> rows;
  const auto or_refuse = [&file](const std::string& row, const auto& action) {
    try {
      action();
    } catch (const UserError& error) {
      file.refuse(row, error.what());
    }
  };
  for (const FileRow& row : file.rows) {
    or_refuse(row.name, [&] { rows.push_back(parsed(row)); });
  }
  settle_names(file, rows);
  for (const DecodeRow& row : rows) or_refuse(row.name, [&] { check(row); });
  return rows;
}

Settings settings_of(const DecodeRow& row) {
  Settings settings;
  for (const std::string& name : field_names()) {
    settings.emplace_back(name, get_field(row.model, name));
  }
  for (const std::string& name : names_of_fields<DecodeKnobs>()) {
    settings.emplace_back(name, get_named_field(row.decode, name));
  }
  return settings;
}

}  // namespace scaling
