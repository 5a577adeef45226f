// What a row may set beside its model.
#include "experiments/attention/core_rows.h"

#include <string>
#include <utility>

#include "kernels/check.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

struct CoreKnobs {
  bool causal = true;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("causal", k.causal, "no query sees a later key; false: from both sides");
  }
};

}  // namespace

std::vector<KnobInfo> core_row_knobs() {
  std::vector<KnobInfo> all = model_row_knobs();
  const std::vector<KnobInfo> own = knobs_of<CoreKnobs>();
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::vector<CoreFileRow> core_rows(const RowFile& file) {
  std::vector<CoreFileRow> rows;
  for (ModelRow& model : model_rows(file)) {
    CoreKnobs knobs;
    std::string remedy;
    try {
      for (const auto& [name, value] : model.rest) set_named_field(knobs, name, value);
      remedy = "; or say causal=false";
      if (knobs.causal) require_causal(model.model);
    } catch (const UserError& error) {
      file.refuse(model.name, error.what() + remedy);
    }
    rows.push_back(CoreFileRow{std::move(model), knobs.causal});
  }
  return rows;
}

}  // namespace scaling
