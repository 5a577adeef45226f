// Rows of a file that are models: what stacks and attentions are measured in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/row_file.h"
#include "models/config.h"

namespace scaling {

struct ModelRow {
  std::string name, against;  ///< against: the row that it is compared with, if nothing is said
                              ///< the first
  ModelConfig model;
  std::int64_t batch = 1;
};

/// Knobs of a model, `batch` and `against`.
std::vector<KnobInfo> model_row_knobs();

/// Throws UserError naming file and row for a value that is unreadable, a model that cannot exist
/// and an unknown `against`.
std::vector<ModelRow> model_rows(const RowFile& file);

}  // namespace scaling
