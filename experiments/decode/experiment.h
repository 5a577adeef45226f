// What a .cfg file asks for: an experiment and its rows, each a model and the way it is decoded.
//
//   experiment = table1_800m             # names the results; default: the file's name
//   title = one line for the report
//   shape = 800m                         # any knob, for all rows
//   row = baseline
//   row = ff: feed_forward=sparse sparsity=64 d_lowrank=64
//
// Row over file, command line over both; a size given anywhere beats the shape it belongs to. A
// row's name ends in .bf16 exactly if its weights are bf16.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "experiments/study/row_text.h"
#include "models/config.h"

namespace scaling {

struct Row {
  std::string name;
  std::string against;  ///< row whose time is divided by this one's
  ModelConfig model;
  int batch = 1;                    ///< sequences decoded at once
  std::int64_t context = 0;         ///< cached positions before the first measured token
  std::int64_t source_length = 16;  ///< encoder positions
  std::string kernels = "simd";     ///< kernel set
  bool own_threads = false;         ///< the library starts its own threads; our team is one thread
};

struct Experiment {
  std::string name;
  std::string title;
  std::vector<Row> rows;
};

/// Reads and checks an experiment. Throws UserError naming `file` (and the row) for anything that
/// is unknown, unreadable or inconsistent.
Experiment parse_experiment(std::istream& in, const std::string& file, const Settings& overrides);
Experiment read_experiment(const std::string& file, const Settings& overrides);

/// The named rows in the experiment's order; all if `names` is empty. Throws UserError listing the
/// known.
std::vector<Row> select_rows(const Experiment& experiment, const std::vector<std::string>& names);

/// Names of all knobs of a row: those of the model, then batch, context, source_length, kernels,
/// own_threads.
std::vector<std::string> row_knobs();
/// Every knob of a row as text, in that order.
Settings settings_of(const Row& row);

/// Tokens a measured decode takes, warm-up not counted; a row's tables must have room for them.
inline constexpr int kDecodeTokens = 12;

}  // namespace scaling
