// Trains the plan's curves one after another and writes what comes out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/study/progress.h"
#include "experiments/training/training_study.h"
#include "experiments/training/metrics.h"
#include "experiments/training/curve_state.h"

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
  /// Says so. Nothing is recorded, but run() does not return success.
  void leave_to_other(const PlannedCurve& planned);
  /// Where the records now have it, nothing is to be done.
  void train_unless_there(PlannedCurve planned);
  void train(const PlannedCurve& planned);
  /// What an interruption says: where training stands, and the remedy; `current` is null between
  /// two curves.
  std::string place_of(const PlannedCurve& current) const;
  std::string how_to_go_on(const PlannedCurve* current) const;
  /// The state of checkpoints that the curve goes on with, or a new one in an empty folder.
  TrainingState begin(const PlannedCurve& planned);
  /// Renames checkpoints of something else that lie where this curve's shall be; none is deleted.
  void set_aside(const PlannedCurve& planned);
  /// From here on a curve that another commit began is this one's: its points so far and its
  /// checkpoints carry this key, so that no plot lacks them and the next run needs no --resume.
  void take_over(const PlannedCurve& planned, TrainingState state);
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
  std::optional<double> last_perplexity_;
  std::int64_t last_step_ = 0;
  bool failed_ = false;
};

/// One optimiser step of every planned row, nothing recorded: does it fit, how long does it take.
/// Prints a line a row; returns the exit status.
int check_curves(const TrainingPlan& plan, const TrainingOptions& options,
                 const std::string& scratch);

}  // namespace scaling
