// From a training run to records: one line an evaluation while it trains, the results at its end.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "experiments/study/record.h"
#include "experiments/training/training_options.h"
#include "experiments/training/training_study.h"
#include "models/training/trainer.h"

namespace scaling {

/// Written last among a curve's results: it is finished if this is there.
inline constexpr const char* kClosingCurveMetric = "log_perplexity";
/// One point of a curve: value is its log-perplexity; step, seconds, loss, accuracy,
/// sequence_accuracy, bits_per_byte, tokens_per_s and learning_rate are in config, of further
/// validation sets their accuracies too.
inline constexpr const char* kEvaluationMetric = "evaluation";

/// Same settings and seed, same data (data_identity), same program, same machine. Names of row
/// and experiment do not count: a curve that two figures share is trained once. Nor do places: an
/// edited text makes another curve, the same text elsewhere does not.
std::string curve_key(const Curve& curve, const std::string& data, int threads,
                      const Provenance& provenance);

/// What a curve's records share; the planned curve's `data` is in config.
Record curve_record(const CurveExperiment& experiment, const PlannedCurve& planned,
                    const TrainingOptions& options, const Provenance& provenance);

/// An evaluation on one of the task's further validation sets.
struct SetEvaluation {
  ValidationSet set;
  Evaluation evaluation;
};

Record evaluation_record(const Record& base, const TrainReport& report,
                         const std::vector<SetEvaluation>& further = {});
/// Whether this point of the curve is among the records already.
bool has_evaluation(const RecordFile& file, const std::string& key, std::int64_t step);
/// The points up to `step` that the file has of another key, as the planned curve's: of a curve
/// that another commit began. Those that it has already are left out.
std::vector<Record> evaluations_of(const RecordFile& file, const std::string& key,
                                   const PlannedCurve& planned, std::int64_t step);

struct CurveResult {
  Evaluation evaluation;  ///< at the end
  std::vector<SetEvaluation> further;
  std::int64_t parameters = 0;
  std::vector<double> step_seconds, tokens_per_s;  ///< one a step trained by this process
  double step_flops = 0;
  double gemm_gflops = 0;         ///< best linked library, same process and threads
  double seconds = std::nan("");  ///< of training, over all resumptions, if known
  double peak_memory_bytes = 0;   ///< not a number if unknown
  std::optional<double> floor;    ///< of generated text, nats a token
  /// Same batches with hard and with soft selections, and the entropy of these; where there are
  /// any.
  std::optional<double> hard_soft_gap, selection_entropy;
};

/// metrics params, train_seconds, tokens_per_s, mfu, peak_memory_bytes, floor, hard_soft_gap,
/// selection_entropy, accuracy, sequence_accuracy, both on trained lengths and by digits
/// ("accuracy.to_20_digits"), bits_per_byte, log_perplexity; those that are unknown are left out.
std::vector<Record> result_records(const Record& base, const CurveResult& result);
Record failed_curve_record(const Record& base, const std::string& why);

/// Records of a finished curve with the same key in another experiment's file of the folder,
/// renamed to this one; empty if there is none. from: "experiment/row" they were measured as.
std::vector<Record> finished_elsewhere(const std::string& folder, const Record& base,
                                       std::string* from);

}  // namespace scaling
