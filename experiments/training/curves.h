// The rows of a .cfg file of curves: each a model and the way it is trained.
//
//   seeds = 1,2,3                        # of weights, noise and data order; each makes a curve
//   d_model = 128                        # any knob of model or training, for all rows
//   row = dense
//   row = ff_n8: feed_forward=sparse sparsity=8
//   row = iso_read_ff: solve=iso_read_ff reference_row=ff_n8
//
// Knobs of a row's own: `solve` (solve.h; match_parameters if nothing is said, nothing for the
// first row) and `reference_row`, the row it is matched with (the first if nothing is said). Two
// more name the contrast that a sparse row will be judged by: `twin`, the same model with dense in
// place of what is judged, and `equal_reads`, the twin made so small that it reads as little as the
// row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/row_file.h"
#include "experiments/training/solve.h"
#include "models/train_config.h"

namespace scaling {

struct Curve {
  std::string name;
  std::string reference_row;
  std::string twin, equal_reads;  ///< rows, or empty
  Solve solve = Solve::none;
  ModelConfig model;  ///< solved
  TrainConfig train;
  std::string solved;  ///< what the solver chose; empty where nothing was solved
  std::vector<std::uint64_t> seeds = {1};
};

/// What a row, the file or a flag may set: knobs of the model, of training, then seeds, solve,
/// reference_row, twin and equal_reads. Training needs f32 and every block; seeds come from
/// `seeds`.
std::vector<KnobInfo> curve_knobs();

/// Every row of the file, solved and checked. Throws UserError naming the file and the row for
/// anything that is unreadable or inconsistent.
std::vector<Curve> curves_of(const RowFile& file);

/// The curve of a row; throws UserError that lists the rows.
const Curve& curve_of_row(const std::vector<Curve>& curves, const std::string& row,
                          const std::string& experiment);

/// The curve's configs with one seed in them.
Curve with_seed(Curve curve, std::uint64_t seed);

/// Every knob of a curve as text: those of the model, of training, then those of a row's own.
Settings settings_of(Curve curve);

/// The setting of every curve that says what its experiment was planned to have.
inline constexpr const char* kPlannedSetting = "planned";
/// All rows in the file's order, behind each its twin and equal reads if it names them:
/// "dense,ff_n8:dense:iso_read_ff,iso_read_ff". So contrasts count that have no curve yet.
std::string planned(const std::vector<Curve>& curves);

/// Target tokens of one optimiser step, padding included; the most, where batches differ.
double tokens_per_step(const TrainConfig& train);

}  // namespace scaling
