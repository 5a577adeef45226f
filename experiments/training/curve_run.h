// One curve from its text to its records: continue or start, train, evaluate, diagnose.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/study/sink.h"
#include "experiments/training/curve_csv.h"
#include "experiments/training/curve_state.h"
#include "experiments/training/curves.h"
#include "kernels/clock.h"

namespace scaling {

/// Written last among a curve's results: it is finished if this is there.
inline constexpr const char* kClosingCurveMetric = "log_perplexity";
/// One point of a curve: value is its log-perplexity; the table's other columns (curve_csv.h) and
/// the accuracies on further validation sets are in config.
inline constexpr const char* kEvaluationMetric = "evaluation";

/// What training a curve takes; from shapes alone.
struct TrainingCost {
  std::int64_t parameters = 0;
  double step_flops = 0;
  std::uint64_t bytes = 0;  ///< weights, gradients, the optimiser's arrays; about: activations
};
TrainingCost training_cost(const Curve& curve);
/// Throws UserError that names what would shrink it if the curve does not fit into memory.
void require_memory(const Curve& curve);

struct CurvePlan {
  Curve curve;              ///< with its seed
  std::string data;         ///< data_identity; empty if the text cannot be read
  std::string init;         ///< content_of init_from; empty: weights are drawn
  std::string checkpoints;  ///< their folder
  std::string cache;        ///< folder of tokenised text
  double later = 0;         ///< time of the curves behind it over its own, estimated
  bool force = false, resume = false;
  /// Of the check of its decode path (decode_check.h); none: there is no such check.
  std::optional<std::int64_t> decode_tokens = {};
};

class CurveRun {
 public:
  /// Point and sink outlive run().
  CurveRun(CurvePlan plan, const Point& point, Sink& sink);

  /// Takes the records over if another experiment of the folder has the same curve; else trains.
  /// Throws UserError, and Interrupted behind a checkpoint.
  void run();
  /// Done so far, "in ff, seed 1, after step 20: its checkpoint is in DIR".
  std::string progress() const;

 private:
  bool reuse();
  void train(const std::optional<CurveState>& begun);
  /// Starts in an empty folder, whose state this is. Checkpoints of something else that lie there
  /// are renamed; none is deleted.
  /// Makes checkpoints of this curve that were moved aside its own again; nothing if there are
  /// none.
  std::optional<CurveState> take_back();
  CurveState start();
  /// From here on a curve that another commit began is this one's: its points so far and its
  /// checkpoints carry this key, so that no plot lacks them and the next run needs no --resume.
  void take_over(CurveState state);
  bool has_evaluation(std::int64_t step) const;
  /// On the task's sets that are evaluated at the end only, or on the others behind the first.
  void evaluate_further(Trainer& trainer, bool only_at_end);
  void record(Trainer& trainer, const TrainReport& report);
  /// Of this curve and those behind it, by what its steps and evaluations have taken so far.
  double seconds_left(std::int64_t step) const;
  void show(const TrainReport& report);
  /// What this process's steps took; nothing if it made none.
  std::vector<Metric> of_steps(const Trainer& trainer) const;
  /// The rest, the closing metric last; unchecked: why the decode path was not, if it was to be.
  std::vector<Metric> results(Trainer& trainer, Transformer& model, const Gemm& gemm,
                              std::string& unchecked);
  /// A curve's own file of a kind, row: with its experiment; in that kind's folder beside records.
  std::string beside_records(const char* kind, const std::string& row, const char* ending) const;
  std::string csv_path(const std::string& row) const;

  const CurvePlan plan_;
  const Point& point_;
  Sink& sink_;
  const Record base_;
  const std::string name_;  ///< "ff, seed 1"
  const TrainingCost cost_;
  std::unique_ptr<Task> task_;
  std::vector<SetEvaluation> evaluations_;           ///< the last ones
  std::vector<double> step_seconds_, tokens_per_s_;  ///< one a step trained by this process
  Clock::time_point begun_;                          ///< of this process's steps
  int evaluated_ = 0;                                ///< times since
  std::int64_t step_ = 0;
  std::string products_;        ///< the Gemm that multiplies, once known
  double unigram_entropy_ = 0;  ///< nats a token
};

}  // namespace scaling
