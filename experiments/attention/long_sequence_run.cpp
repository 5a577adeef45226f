// Every measurement in a process of its own, recorded as soon as it is there.
#include "experiments/attention/long_sequence_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/attention/attention_recall.h"
#include "experiments/instruments/child_process.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/run_experiment.h"
#include "kernels/arena.h"
#include "kernels/check.h"

namespace scaling {
namespace {

constexpr std::int64_t kGemmSize = 2048, kQuickGemmSize = 512;

// For the plan only: FLOP/s of a core, seconds to set a length up, those of one distribution.
constexpr double kRate = 120e9, kSetUpSeconds = 2, kRecallSeconds = 20;
/// Of the available memory, what a length may take.
constexpr double kMostMemory = 0.9;

double planned_step_seconds(const ModelConfig& model, double length) {
  const std::int64_t view =
      model.lsh_chunk * (model.lsh_chunks_before + 1 + model.lsh_chunks_after);
  const double seen = model.attention == "full" ? length / 2 : double(model.lsh_rounds * view);
  return 14 * length * seen * double(model.d_model) / kRate;
}

double planned_length_seconds(const Experiment& experiment, const LongSequenceOptions& options,
                              std::int64_t length) {
  double round = 0;
  for (const Row& row : experiment.rows) {
    const double step = planned_step_seconds(row.model, double(length));
    if (step < options.step_limit) round += 4 * step / 3;
  }
  return kSetUpSeconds + round + std::min(options.seconds, round * options.repeats);
}

/// All metrics of a row at one length, kClosingCoreMetric last.
std::vector<Record> core_records(Record base, const CoreCosts& costs, const CoreCost& cost,
                                 std::int64_t length) {
  std::vector<Record> records;
  base.config["gemm"] = costs.gemm;
  if (!cost.warm) base.note = "one forward and one step, the first: not warmed up, no spread";
  const auto add = [&](const char* metric, const char* unit, const std::vector<double>& measured,
                       const auto& value_of) {
    std::vector<double> values;
    for (const double m : measured) values.push_back(value_of(m));
    base.metric = metric;
    base.unit = unit;
    base.set(summarize(values));
    records.push_back(base);
  };
  const auto add_count = [&](const char* metric, const char* unit, double count) {
    add(metric, unit, {count}, [](double value) { return value; });
  };
  add_count("heap_bytes", "B", cost.heap_bytes);
  if (cost.peak_bytes > 0) add_count("peak_bytes", "B", cost.peak_bytes);
  add_count("forward_heap_bytes", "B", cost.forward_heap_bytes);
  if (cost.forward_peak_bytes > 0) add_count("forward_peak_bytes", "B", cost.forward_peak_bytes);
  add_count("gemm_gflops", "GFLOP/s", costs.gemm_gflops);
  add_count("forward_flops", "FLOP", cost.forward_flops);
  add_count("step_flops", "FLOP", cost.step_flops);
  const double rate = costs.gemm_gflops * 1e9, tokens = double(length);
  const std::vector<double>&forward = cost.forward_seconds, &step = cost.step_seconds;
  add("forward_efficiency", "1", forward, [&](double s) { return cost.forward_flops / s / rate; });
  add("step_efficiency", "1", step, [&](double s) { return cost.step_flops / s / rate; });
  add("step_tokens_per_s", "tokens/s", step, [&](double s) { return tokens / s; });
  add("step_us_per_token", "us", step, [&](double s) { return 1e6 * s / tokens; });
  add("forward_ms", "ms", forward, [](double s) { return 1e3 * s; });
  add(kClosingCoreMetric, "ms", step, [](double s) { return 1e3 * s; });
  return records;
}

}  // namespace

double planned_seconds(const Experiment& experiment, const LongSequenceOptions& options) {
  double seconds = double(std::size(kDistributions)) * kRecallSeconds;
  for (const std::int64_t length : options.lengths) {
    seconds += planned_length_seconds(experiment, options, length);
  }
  return seconds;
}

LongSequenceRun::LongSequenceRun(const Experiment& experiment, const LongSequenceOptions& options,
                                 const Provenance& provenance, RecordFile& file)
    : experiment_(experiment),
      options_(options),
      provenance_(provenance),
      file_(file),
      progress_(planned_seconds(experiment, options)) {}

int LongSequenceRun::run() {
  try {
    measure_all();
  } catch (const Interrupted&) {
    std::fprintf(stderr, "interrupted; what is finished is kept, the same command goes on\n");
    return kExitInterrupted;
  }
  return failed_ ? kExitFailedRows : 0;
}

void LongSequenceRun::measure_all() {
  for (const std::int64_t length : options_.lengths) {
    check_interrupt();
    const double planned = planned_length_seconds(experiment_, options_, length);
    try {
      progress_.done(measure_length(length), planned);
    } catch (const UserError& error) {
      fail(length, error.what());
      progress_.done("length " + std::to_string(length) + ": failed, " + error.what(), planned);
    }
  }
  for (const char* distribution : kDistributions) {
    check_interrupt();
    progress_.done(measure_distribution(distribution), kRecallSeconds);
  }
}

Record LongSequenceRun::record(const Row& row, std::int64_t length) const {
  return core_record(experiment_, row, length, options_, provenance_);
}

/// The newest record of a metric, or null.
const Record* LongSequenceRun::find(const std::string& key, const std::string& metric) const {
  const auto& all = file_.records();
  const auto at = std::find_if(all.rbegin(), all.rend(),
                               [&](const Record& r) { return r.key == key && r.metric == metric; });
  return at == all.rend() ? nullptr : &*at;
}

/// Whether a row is measured, or was skipped under the same limit.
bool LongSequenceRun::is_known(const Record& base) const {
  if (options_.force) return false;
  if (file_.finished(base.key, kClosingCoreMetric)) return true;
  const Record* last = find(base.key, kClosingCoreMetric);
  return last && last->status == Status::skipped &&
         last->config.value("step_limit", 0.0) == options_.step_limit;
}

void LongSequenceRun::remember(const Row& row, std::int64_t length) {
  const std::string key = record(row, length).key;
  const Record* step = find(key, kClosingCoreMetric);
  const Record* heap = find(key, "heap_bytes");
  if (step && heap && std::isfinite(step->value)) {
    found_[row.name] = {double(length), step->value * 1e-3, heap->value};
  }
}

/// Empty if the row can be measured.
std::string LongSequenceRun::reason_to_skip(const Row& row, std::int64_t length) const {
  double needed = core_input_bytes(row.model, length);
  const auto at = found_.find(row.name);
  if (at != found_.end()) {
    const double longer = double(length) / at->second.length;
    const double growth = row.model.attention == "full" ? longer * longer : longer;
    const double seconds = at->second.seconds * growth;
    if (seconds > options_.step_limit) {
      return "a training step would take about " + readable_seconds(seconds) +
             ", more than --step-limit, " + readable_seconds(options_.step_limit);
    }
    needed += at->second.bytes * longer;
  }
  const auto available = double(available_memory());
  if (needed > kMostMemory * available) {
    return "it would take about " + readable_bytes(needed) + " of memory, and " +
           readable_bytes(available) + " are available";
  }
  return "";
}

void LongSequenceRun::skip(Record base, const std::string& reason) {
  base.metric = kClosingCoreMetric;
  base.unit = "ms";
  base.status = Status::skipped;
  base.note = reason;
  base.config["step_limit"] = options_.step_limit;
  file_.append({base});
}

void LongSequenceRun::fail(std::int64_t length, const std::string& why) {
  failed_ = true;
  std::vector<Record> records;
  for (const Row& row : experiment_.rows) {
    Record r = record(row, length);
    if (is_known(r)) continue;
    r.metric = kClosingCoreMetric;
    r.unit = "ms";
    r.status = Status::failed;
    r.note = why;
    records.push_back(r);
  }
  file_.append(records);
}

std::string LongSequenceRun::measure_rows(const std::vector<Row>& rows, std::int64_t length) {
  const CoreSetting setting = {length, options_.threads, options_.repeats, options_.seconds,
                               options_.quick ? kQuickGemmSize : kGemmSize};
  const auto costs =
      in_child([&] { return nlohmann::json(measure_cores(rows, setting)); }).get<CoreCosts>();
  std::string text;
  std::vector<Record> records;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto own = core_records(record(rows[i], length), costs, costs.rows[i], length);
    records.insert(records.end(), own.begin(), own.end());
    char number[48];
    std::snprintf(number, sizeof number, " %.4g ms a step", own.back().value);
    text += "; " + rows[i].name + number;
  }
  file_.append(records);
  for (const Row& row : rows) remember(row, length);
  return text;
}

std::string LongSequenceRun::measure_length(std::int64_t length) {
  std::string text = "length " + std::to_string(length);
  std::vector<Row> rows;
  for (const Row& row : experiment_.rows) {
    const Record base = record(row, length);
    if (is_known(base)) {
      remember(row, length);
      text += "; " + row.name + " already measured";
      continue;
    }
    const std::string reason = reason_to_skip(row, length);
    if (reason.empty()) {
      rows.push_back(row);
    } else {
      skip(base, reason);
      text += "; " + row.name + " skipped, " + reason;
    }
  }
  progress_.live(text);
  return rows.empty() ? text : text + measure_rows(rows, length);
}

std::string LongSequenceRun::measure_distribution(const std::string& distribution) {
  std::vector<ModelConfig> settings;
  std::vector<Record> bases;
  for (const std::int64_t chunk : options_.recall_chunks) {
    for (const std::int64_t rounds : options_.recall_rounds) {
      ModelConfig model = experiment_.rows.front().model;
      model.attention = "lsh";
      model.lsh_chunk = chunk;
      model.lsh_rounds = rounds;
      const Record base = recall_record(experiment_, model, distribution, options_, provenance_);
      if (!options_.force && file_.finished(base.key, kClosingRecallMetric)) continue;
      settings.push_back(model);
      bases.push_back(base);
    }
  }
  const std::string text = "recall, " + distribution + ": ";
  if (settings.empty()) return text + "already measured";
  progress_.live(text);
  const nlohmann::json found = in_child([&]() -> nlohmann::json {
    nlohmann::json all;
    for (const Recall& r :
         measure_recall(distribution, options_.recall_length, settings, options_.threads)) {
      all.push_back({{"density", r.density}, {kClosingRecallMetric, r.recall}});
    }
    return all;
  });
  std::vector<Record> records;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    for (const char* metric : {"density", kClosingRecallMetric}) {
      Record r = bases[i];
      r.metric = metric;
      r.unit = "1";
      r.set(summarize(found[i][metric].get<std::vector<double>>()));
      records.push_back(r);
    }
  }
  file_.append(records);
  return text + std::to_string(settings.size()) + " settings";
}

}  // namespace scaling
