// From a training run to metrics: one point an evaluation while it trains, the results at its end.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "experiments/study/point.h"
#include "models/training/trainer.h"

namespace scaling {

/// Written last among a curve's results: it is finished if this is there.
inline constexpr const char* kClosingCurveMetric = "log_perplexity";
/// One point of a curve: value is its log-perplexity; step, seconds, loss, accuracy,
/// sequence_accuracy, bits_per_byte, tokens_per_s and learning_rate are in config, of further
/// validation sets their accuracies too.
inline constexpr const char* kEvaluationMetric = "evaluation";

/// An evaluation on one of the task's further validation sets.
struct SetEvaluation {
  ValidationSet set;
  Evaluation evaluation;
};

/// config of the record of an evaluation; data: of the curve.
nlohmann::ordered_json evaluation_config(const std::string& data, const TrainReport& report,
                                         const std::vector<SetEvaluation>& further);

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

/// params, train_seconds, tokens_per_s, mfu, gemm_gflops, peak_memory_bytes, floor, hard_soft_gap,
/// selection_entropy, accuracy, sequence_accuracy, both on further sets
/// ("accuracy.to_20_digits"), bits_per_byte, log_perplexity; those that are unknown are left out.
std::vector<Metric> result_metrics(const CurveResult& result);

/// Records of a finished curve with the same key as `base` in another experiment's file of the
/// folder, renamed to this one; empty if there is none. from: "experiment/row" they were measured
/// as.
std::vector<Record> finished_elsewhere(const std::string& folder, const Record& base,
                                       std::string* from);

}  // namespace scaling
