// One curve from its text to its records: continue or start, train, evaluate, diagnose.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "experiments/study/sink.h"
#include "experiments/training/curve_state.h"
#include "experiments/training/curves.h"
#include "experiments/training/metrics.h"
#include "models/training/trainer.h"

namespace scaling {

struct PlannedCurve {
  Curve curve;         ///< with its seed
  std::string data;    ///< data_identity; empty if the text cannot be read
  std::string folder;  ///< of its checkpoints
  std::string csv;
  std::string cache;  ///< folder of tokenised text
  std::int64_t parameters = 0;
  double step_flops = 0;
  std::uint64_t bytes = 0;  ///< weights, gradients, the optimiser's arrays; about: activations
};

/// A model ready for training; its threads are gone again when this returns, since OpenMP's follow.
std::unique_ptr<Transformer> allocate_for_training(const ModelConfig& config, int threads);
/// Throws UserError that names what would shrink it if the curve does not fit.
void require_memory(const PlannedCurve& planned);

class CurveRun {
 public:
  /// All of it outlives this. seconds_left(step, FLOP/s): of this curve and those after it.
  CurveRun(const PlannedCurve& planned, const Point& point, Sink& sink, bool force, bool resume,
           std::function<double(std::int64_t, double)> seconds_left);

  /// Takes the records over if another experiment of the folder has the same curve; else trains.
  /// Throws UserError, and Interrupted behind a checkpoint.
  void run();
  /// Done so far.
  std::int64_t step() const { return step_; }

 private:
  bool reuse();
  void train(const std::optional<CurveState>& begun);
  /// Starts in an empty folder, whose state this is.
  CurveState start();
  /// Renames checkpoints of something else that lie where this curve's shall be; none is deleted.
  void set_aside();
  /// From here on a curve that another commit began is this one's: its points so far and its
  /// checkpoints carry this key, so that no plot lacks them and the next run needs no --resume.
  void take_over(CurveState state);
  bool has_evaluation(std::int64_t step) const;
  void record(Trainer& trainer, const std::vector<ValidationSet>& sets, const TrainReport& report);
  void show(const TrainReport& report);
  std::string name() const;

  const PlannedCurve& planned_;
  const Point& point_;
  Sink& sink_;
  const bool force_, resume_;
  const std::function<double(std::int64_t, double)> seconds_left_;
  const Record base_;
  CurveResult result_;
  std::string evaluated_;  ///< the last evaluation in words
  std::int64_t step_ = 0;
};

}  // namespace scaling
