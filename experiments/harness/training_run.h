// Trains the plan's curves one after another and writes what comes out.
#pragma once

#include <chrono>
#include <string>

#include "experiments/harness/progress.h"
#include "experiments/harness/training_plan.h"
#include "experiments/harness/training_records.h"

namespace scaling {

class TrainingRun {
 public:
  /// Everything outlives this. scratch: folder of caches.
  TrainingRun(const CurveExperiment& experiment, const TrainingOptions& options,
              const Provenance& provenance, const TrainingPlan& plan, const std::string& results,
              const std::string& scratch, RecordFile& file);
  /// Exit status. A curve that fails is recorded with its reason and the others go on; an
  /// interruption leaves a checkpoint.
  int run();

 private:
  void train(const PlannedCurve& planned);
  /// Renames checkpoints of something else that lie where this curve's shall be.
  void set_aside(const PlannedCurve& planned);
  /// Takes the records over if another experiment of the folder has the same curve.
  bool reuse(const PlannedCurve& planned);
  void show(const PlannedCurve& planned, const TrainReport& report);
  void give_up(const PlannedCurve& planned, const std::string& why);
  double remaining_seconds(const PlannedCurve& planned, std::int64_t step,
                           double flops_per_s) const;

  const CurveExperiment& experiment_;
  const TrainingOptions& options_;
  const Provenance& provenance_;
  const TrainingPlan& plan_;
  const std::string results_, scratch_;
  RecordFile& file_;
  Progress progress_;
  std::string last_evaluation_;
  std::int64_t last_step_ = 0;
  bool failed_ = false;
};

/// One optimiser step of every planned row, nothing recorded: does it fit, how long does it take.
/// Prints a line a row; returns the exit status.
int check_curves(const TrainingPlan& plan, const TrainingOptions& options,
                 const std::string& scratch);

}  // namespace scaling
