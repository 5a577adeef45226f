// Metrics, and the search for curves that another figure has trained.
#include "experiments/training/metrics.h"

#include <filesystem>
#include <fstream>

#include "kernels/check.h"

namespace scaling {

nlohmann::ordered_json evaluation_config(const std::string& data, const TrainReport& report,
                                         const std::vector<SetEvaluation>& further) {
  nlohmann::ordered_json config = {{"data", data},
                                   {"step", report.step},
                                   {"seconds", report.seconds},
                                   {"loss", report.loss},
                                   {"accuracy", report.evaluation->accuracy},
                                   {"sequence_accuracy", report.evaluation->sequence_accuracy},
                                   {"bits_per_byte", report.evaluation->bits_per_byte},
                                   {"tokens_per_s", report.tokens_per_s},
                                   {"learning_rate", report.learning_rate}};
  for (const auto& [set, evaluation] : further) {
    config[set.prefix + "accuracy" + set.suffix] = evaluation.accuracy;
    config[set.prefix + "sequence_accuracy" + set.suffix] = evaluation.sequence_accuracy;
  }
  return config;
}

std::vector<Metric> result_metrics(const CurveResult& result) {
  std::vector<Metric> metrics;
  const auto add = [&](const std::string& name, const char* unit, double value) {
    if (std::isfinite(value)) metrics.push_back({name, unit, {value}});
  };
  add("params", "weights", double(result.parameters));
  add("train_seconds", "s", result.seconds);
  if (!result.tokens_per_s.empty()) {
    metrics.push_back({"tokens_per_s", "tokens/s", result.tokens_per_s});
    std::vector<double> shares;
    for (const double seconds : result.step_seconds) {
      shares.push_back(result.step_flops / seconds / (1e9 * result.gemm_gflops));
    }
    metrics.push_back({"mfu", "1", shares});
    add("gemm_gflops", "GFLOP/s", result.gemm_gflops);
  }
  add("peak_memory_bytes", "B", result.peak_memory_bytes);
  if (result.floor) add("floor", "nats/token", *result.floor);
  if (result.hard_soft_gap) add("hard_soft_gap", "nats/token", *result.hard_soft_gap);
  if (result.selection_entropy) add("selection_entropy", "nats", *result.selection_entropy);
  add("accuracy", "1", result.evaluation.accuracy);
  add("sequence_accuracy", "1", result.evaluation.sequence_accuracy);
  for (const auto& [set, evaluation] : result.further) {
    add(set.prefix + "accuracy" + set.suffix, "1", evaluation.accuracy);
    add(set.prefix + "sequence_accuracy" + set.suffix, "1", evaluation.sequence_accuracy);
  }
  // 0 where no text stands behind the targets.
  if (result.evaluation.bits_per_byte > 0) {
    add("bits_per_byte", "bits/byte", result.evaluation.bits_per_byte);
  }
  metrics.push_back({kClosingCurveMetric, "nats/token", {result.evaluation.log_perplexity}});
  return metrics;
}

std::vector<Record> finished_elsewhere(const std::string& folder, const Record& base,
                                       std::string* from) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".jsonl" || entry.path().stem() == base.experiment) continue;
    std::ifstream in(entry.path());
    std::vector<Record> found;
    bool finished = false;
    for (std::string line; std::getline(in, line);) {
      if (line.find(base.key) == std::string::npos) continue;
      try {
        Record r = from_line(line);
        if (r.key != base.key || std::isnan(r.value)) continue;
        finished = finished || r.metric == kClosingCurveMetric;
        *from = r.experiment + "/" + r.row;
        r.experiment = base.experiment;
        r.row = base.row;
        r.against = base.against;
        add_note(r.note, "trained as " + *from);
        found.push_back(std::move(r));
      } catch (const UserError&) {
        // Another program's file, or a damaged line: nothing to take from it.
      }
    }
    if (finished) return found;
  }
  return {};
}

}  // namespace scaling
