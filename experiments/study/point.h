// One thing that is measured or not yet, and what is said about it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/study/record.h"
#include "models/knobs.h"

namespace scaling {

/// A row at one setting of what the study sweeps, one number of threads and one seed.
struct Point {
  std::string row, against;
  int threads = 1;
  std::uint64_t seed = 0;
  /// Everything that may change the result, defaults too: the record's config. What it is known by
  /// is made from this alone (identity.h).
  Settings settings;
  Settings flags;           ///< that leave just this point, e.g. {"rows", "ff"}, {"lengths", "512"}
  double seconds = 0;       ///< estimate
  std::string plan;         ///< what the plan says of it beside its time, e.g. "1.2 GB"
  std::string unavailable;  ///< why it cannot be measured here, or empty
  std::string note;         ///< of all its records
};

struct Metric {
  std::string name, unit;
  std::vector<double> values = {};  ///< repeated measurements; the record has their median
  Status status = Status::ok;
  std::string note = {};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Metric, name, unit, values, status, note)

/// What goes into the records of one call beside the point's own.
struct Extra {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  bool config_alone = false;  ///< in place of the settings, not behind them
  Ceilings ceilings = {};
  std::string note = {};
  std::string line = {};  ///< said when the point is closed; empty: the closing metric
  nlohmann::ordered_json samples = nullptr;  ///< of the last metric: Record::samples
};

/// The value of a setting; null: it is none of these.
inline const std::string* find_setting(const Settings& settings, const std::string& name) {
  for (const auto& [setting, value] : settings) {
    if (setting == name) return &value;
  }
  return nullptr;
}

/// Joins notes by "; ".
inline void add_note(std::string& note, const std::string& more) {
  if (!more.empty()) note += (note.empty() ? "" : "; ") + more;
}

}  // namespace scaling
