// Keys, records and the search for curves that another figure has trained.
#include "experiments/training/metrics.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/study/fingerprint.h"
#include "kernels/check.h"

namespace scaling {
namespace {

Record one(const Record& base, const std::string& metric, const char* unit,
           const std::vector<double>& values) {
  Record r = base;
  r.metric = metric;
  r.unit = unit;
  r.set(summarize(values));
  return r;
}

}  // namespace

std::string curve_key(const Curve& curve, const std::string& data, int threads,
                      const Provenance& p) {
  std::string text = "curve|" + data;
  for (const auto& [name, value] : settings_of(curve)) {
    // Sizes that were solved for count as what they are, places as what is there.
    if (name == "solve" || name == "reference_row" || is_path(name)) continue;
    text += "|" + name + "=" + value;
  }
  text += "|" + std::to_string(threads) + "|" + p.machine + "|" + p.commit;
  // A dirty tree has no name of its own; the program made from it has.
  if (p.dirty) text += "|" + p.program;
  return fingerprint(text);
}

Record curve_record(const CurveExperiment& experiment, const PlannedCurve& planned,
                    const TrainingOptions& options, const Provenance& provenance) {
  const Curve& curve = planned.curve;
  Record r;
  r.experiment = experiment.name;
  r.row = curve.name;
  r.against = experiment.curves.front().name;
  r.threads = options.threads;
  for (const auto& [name, value] : settings_of(curve)) {
    r.config[name] = typed_value(portable_value(name, value));
  }
  r.config["data"] = planned.data;
  r.note = curve.solved;
  r.command = command_of(options, curve.name, curve.model.seed);
  r.seed = curve.model.seed;
  r.key = planned.key;
  r.provenance = provenance;
  r.date = utc_date();
  return r;
}

Record evaluation_record(const Record& base, const TrainReport& report,
                         const std::vector<SetEvaluation>& further) {
  Record r = base;
  r.metric = kEvaluationMetric;
  r.unit = "nats/token";
  r.set(summarize({report.evaluation->log_perplexity}));
  r.config = {{"data", base.config.at("data")},
              {"step", report.step},
              {"seconds", report.seconds},
              {"loss", report.loss},
              {"accuracy", report.evaluation->accuracy},
              {"sequence_accuracy", report.evaluation->sequence_accuracy},
              {"bits_per_byte", report.evaluation->bits_per_byte},
              {"tokens_per_s", report.tokens_per_s},
              {"learning_rate", report.learning_rate}};
  for (const auto& [set, evaluation] : further) {
    r.config[set.prefix + "accuracy" + set.suffix] = evaluation.accuracy;
    r.config[set.prefix + "sequence_accuracy" + set.suffix] = evaluation.sequence_accuracy;
  }
  r.note.clear();
  r.date = utc_date();
  return r;
}

bool has_evaluation(const RecordFile& file, const std::string& key, std::int64_t step) {
  const std::vector<Record>& records = file.records();
  return std::any_of(records.begin(), records.end(), [&](const Record& r) {
    return r.metric == kEvaluationMetric && r.key == key && r.config.value("step", 0ll) == step;
  });
}

std::vector<Record> evaluations_of(const RecordFile& file, const std::string& key,
                                   const PlannedCurve& planned, std::int64_t step) {
  std::vector<Record> points;
  for (const Record& r : file.records()) {
    if (r.metric != kEvaluationMetric || r.key != key) continue;
    const std::int64_t at = r.config.value("step", 0ll);
    if (at > step || has_evaluation(file, planned.key, at)) continue;
    points.push_back(r);
    points.back().key = planned.key;
    points.back().config["data"] = planned.data;
  }
  return points;
}

std::vector<Record> result_records(const Record& base, const CurveResult& result) {
  std::vector<Record> records;
  const auto add = [&](const std::string& metric, const char* unit, double value) {
    if (std::isfinite(value)) records.push_back(one(base, metric, unit, {value}));
  };
  add("params", "weights", double(result.parameters));
  add("train_seconds", "s", result.seconds);
  if (!result.tokens_per_s.empty()) {
    records.push_back(one(base, "tokens_per_s", "tokens/s", result.tokens_per_s));
    std::vector<double> shares;
    for (const double seconds : result.step_seconds) {
      shares.push_back(result.step_flops / seconds / (1e9 * result.gemm_gflops));
    }
    records.push_back(one(base, "mfu", "1", shares));
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
  records.push_back(
      one(base, kClosingCurveMetric, "nats/token", {result.evaluation.log_perplexity}));
  for (Record& r : records) r.date = utc_date();
  return records;
}

Record failed_curve_record(const Record& base, const std::string& why) {
  Record r = base;
  r.metric = kClosingCurveMetric;
  r.unit = "nats/token";
  r.status = Status::failed;
  r.note = why;
  r.date = utc_date();
  return r;
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
        r.note += (r.note.empty() ? "trained as " : "; trained as ") + *from;
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
