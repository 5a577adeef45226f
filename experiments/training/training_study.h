// Which curves are to be trained, which are there, how long it may take: known before memory is
// taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/record.h"
#include "experiments/training/training_options.h"

namespace scaling {

struct PlannedCurve {
  Curve curve;       ///< with its seed
  std::string data;  ///< data_fingerprint; empty if the text cannot be read
  std::string key;
  std::string folder;  ///< of its checkpoints
  std::string csv;
  bool finished = false;
  bool begun = false;  ///< a checkpoint of this key may be there
  std::int64_t parameters = 0;
  std::int64_t reference_parameters = 0;
  double step_flops = 0;
  std::uint64_t bytes = 0;  ///< weights, gradients, the optimiser's arrays; about: activations
};

using TrainingPlan = std::vector<PlannedCurve>;

/// One entry a curve and seed, seed after seed, so that every row has one seed before any has two.
/// `file` may be null: data and keys are left out and nothing is finished then. `results` and
/// `scratch` may be empty with it.
TrainingPlan make_training_plan(const CurveExperiment& experiment, const TrainingOptions& options,
                                const Provenance& provenance, const RecordFile* file,
                                const std::string& results, const std::string& scratch);

/// Whether the curve of this key is finished or begun; under --force neither.
void find_progress(PlannedCurve& planned, const TrainingOptions& options, const RecordFile& file);

/// Target tokens of one optimiser step, padding included; the most, where batches differ.
double tokens_per_step(const TrainConfig& train);

/// Of unfinished curves, at `flops_per_second`.
double estimated_seconds(const TrainingPlan& plan, double flops_per_second);

std::string plan_text(const CurveExperiment& experiment, const TrainingPlan& plan,
                      const TrainingOptions& options);
/// Beside it, for --dry-run: every knob of every row.
std::string knobs_text(const TrainingPlan& plan);

/// For estimates before anything is measured, FLOP/s.
inline constexpr double kAssumedRate = 150e9;

}  // namespace scaling
