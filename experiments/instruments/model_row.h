// Rows of a file that are models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/row_file.h"
#include "experiments/study/study.h"
#include "models/config.h"

namespace scaling {

struct ModelRow {
  std::string name;     ///< ends in .bf16 exactly if its weights are bf16
  std::string against;  ///< row that it is compared with; where none is named, the first
  ModelConfig model;
  std::int64_t batch = 1;  ///< sequences at once
  Settings rest;           ///< what neither the model has nor this
};

/// Knobs of a model, `batch` and `against`.
std::vector<KnobInfo> model_row_knobs();

/// Throws UserError naming file and row for a value that is unreadable, a model that cannot exist,
/// an unknown `against` and a row that itself sets a knob of a component that it does not choose.
std::vector<ModelRow> model_rows(const RowFile& file);

template <class Row>
std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

/// Every knob of the model and `batch`, as text.
Settings settings_of(const ModelRow& row);

/// A row at one number of threads. own: what of the row counts, e.g. settings_of(row); more: what
/// the study has set beside it.
Point point_of(const ModelRow& row, int threads, Settings own, const Settings& more);

/// Study::counts: whether a model's setting is its own or that of a component that is chosen in
/// `all`. Settings that are no model's always count.
bool is_relevant(const std::string& setting, const Settings& all);

/// A study whose rows are models.
class ModelStudy : public Study {
 public:
  std::vector<KnobInfo> row_knobs() const override { return model_row_knobs(); }
  bool counts(const std::string& setting, const Settings& all) const override {
    return is_relevant(setting, all);
  }
};

}  // namespace scaling
