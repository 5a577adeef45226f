// What a .cfg file of curves asks for: rows, each a model and the way it is trained.
//
//   experiment = fig1_small              # names the results; default: the file's name
//   title = one line for the report
//   seeds = 1,2,3                        # of weights, noise and data order; each makes a curve
//   d_model = 128                        # any knob of model or training, for all rows
//   row = dense
//   row = ff_n8: feed_forward=sparse sparsity=8
//   row = iso_read_ff: solve=iso_read_ff reference_row=ff_n8
//
// Row over file, command line over both. Two knobs are a row's own: `solve` (matched_parameters.h;
// match_parameters if nothing is said, nothing for the first row) and `reference_row`, the row it
// is matched with (the first if nothing is said).
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "experiments/study/row_text.h"
#include "experiments/training/matched_parameters.h"
#include "models/config.h"
#include "models/train_config.h"

namespace scaling {

struct Curve {
  std::string name;
  std::string reference_row;
  Solve solve = Solve::none;
  ModelConfig model;  ///< solved
  TrainConfig train;
  std::string solved;  ///< what the solver chose; empty where nothing was solved
};

struct CurveExperiment {
  std::string name;
  std::string title;
  std::vector<std::uint64_t> seeds;
  std::vector<Curve> curves;
};

/// Reads, solves and checks. Throws UserError naming `file` (and the row) for anything that is
/// unknown, unreadable or inconsistent.
CurveExperiment parse_curves(std::istream& in, const std::string& file, const Settings& overrides);
CurveExperiment read_curves(const std::string& file, const Settings& overrides);

/// The named curves in the experiment's order; all if `names` is empty. Throws UserError listing
/// the known.
std::vector<Curve> select_curves(const CurveExperiment& experiment,
                                 const std::vector<std::string>& names);

/// The curve's configs with one seed in them.
Curve with_seed(Curve curve, std::uint64_t seed);

/// "1,2,3"; throws UserError.
std::vector<std::uint64_t> parse_seeds(const std::string& text);

/// (name, help) of every knob that a file or a flag may set for all rows: those of the model, then
/// those of training. The seed comes from `seeds`.
Settings curve_knobs();
/// Every knob of a curve as text, in that order, then solve and reference_row.
Settings settings_of(const Curve& curve);

}  // namespace scaling
