// From the settings of a file's rows to checked rows.
#include "experiments/decode/decode_row.h"

#include <algorithm>

#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/libraries.h"
#include "models/knobs.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What the model itself cannot know.
void check(const DecodeRow& row) {
  const DecodeKnobs& knobs = row.decode;
  if (row.batch > kMaxTokens) {
    throw UserError("batch is " + std::to_string(row.batch) + " but must be 1 to " +
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
  if (const auto trace = replayed_by(row); trace && trace->positions < kDecodeTokens) {
    throw UserError("replay '" + knobs.replay + "' has examples of " +
                    std::to_string(trace->positions) + " tokens, and a decode is of " +
                    std::to_string(kDecodeTokens) + "; name another trace");
  }
}

}  // namespace

std::optional<SelectionTrace> replayed_by(const DecodeRow& row) {
  if (row.decode.replay.empty()) return std::nullopt;
  const Choices choices = make_feed_forward(row.model)->choices();
  if (choices.count == 0) {
    throw UserError("replay is for feed-forwards that choose, and " + row.model.feed_forward +
                    " does not; drop it");
  }
  return read_trace(row.decode.replay, choices.options);
}

std::vector<KnobInfo> decode_row_knobs() {
  std::vector<KnobInfo> all = model_row_knobs();
  const std::vector<KnobInfo> decode = knobs_of<DecodeKnobs>();
  all.insert(all.end(), decode.begin(), decode.end());
  return all;
}

std::vector<DecodeRow> decode_rows(const RowFile& file) {
  std::vector<DecodeRow> rows;
  for (ModelRow& model : model_rows(file)) {
    DecodeRow row{std::move(model), {}};
    try {
      for (const auto& [name, value] : row.rest) set_named_field(row.decode, name, value);
      check(row);
    } catch (const UserError& error) {
      file.refuse(row.name, error.what());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Settings settings_of(const DecodeRow& row) {
  Settings settings = settings_of(static_cast<const ModelRow&>(row));
  for (const std::string& name : names_of_fields<DecodeKnobs>()) {
    settings.emplace_back(name, get_named_field(row.decode, name));
  }
  return settings;
}

}  // namespace scaling
