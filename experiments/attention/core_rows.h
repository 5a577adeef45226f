// Rows of a file whose attentions alone are looked at, causal or from both sides.
#pragma once

#include <vector>

#include "experiments/instruments/model_row.h"

namespace scaling {

struct CoreFileRow : ModelRow {
  bool causal = true;
};

/// Those of a model, and `causal`.
std::vector<KnobInfo> core_row_knobs();

/// As model_rows(); throws UserError, too, for a causal row of an attention that cannot be causal.
std::vector<CoreFileRow> core_rows(const RowFile& file);

}  // namespace scaling
