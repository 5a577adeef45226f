// Rows and lengths to points, costs to metrics, shorter lengths to what a longer one would cost.
#include "experiments/attention/long_sequence_study.h"

#include <algorithm>
#include <cstdio>

#include "experiments/instruments/child_process.h"
#include "experiments/study/counts.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

constexpr std::int64_t kGemmSize = 2048, kQuickGemmSize = 512;
// For the plan only: FLOP/s of an attention, seconds to set a length up.
constexpr double kRate = 120e9, kSetUpSeconds = 2;
/// Share of the available memory that a length may take.
constexpr double kMostMemory = 0.9;

double step_flops(const ModelConfig& model, std::int64_t length) {
  return make_attention(model.attention, model)
      ->work(length, /*causal=*/true)
      .step_flops(model.d_head());
}

/// All metrics of a row at one length, the closing one last.
std::vector<Metric> metrics_of(const CoreCosts& costs, const CoreCost& cost, std::int64_t length) {
  std::vector<Metric> metrics;
  const auto add = [&](const char* name, const char* unit, const std::vector<double>& measured,
                       const auto& value_of) {
    Metric metric{.name = name, .unit = unit};
    for (const double m : measured) metric.values.push_back(value_of(m));
    metrics.push_back(std::move(metric));
  };
  const auto add_count = [&](const char* name, const char* unit, double count) {
    metrics.push_back({.name = name, .unit = unit, .values = {count}});
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
  add("step_ms", "ms", step, [](double s) { return 1e3 * s; });
  return metrics;
}

/// The newest value of a metric, or 0.
double newest(const std::vector<Record>& records, const std::string& metric) {
  double value = 0;
  for (const Record& r : records) {
    if (r.metric == metric && r.status == Status::ok) value = r.value;
  }
  return value;
}

}  // namespace

Settings attention_settings(const ModelConfig& model) {
  Settings settings;
  for (const char* knob : {"d_model", "n_heads", "attention", "seed"}) {
    settings.emplace_back(knob, get_field(model, knob));
  }
  for (const std::string& knob : field_names()) {
    if (knob.rfind("lsh_", 0) == 0) settings.emplace_back(knob, get_field(model, knob));
  }
  settings.emplace_back("causal", "true");
  return settings;
}

StudyInfo LongSequenceStudy::info() const {
  return {.name = "attention",
          .program = "long_sequence",
          .about = "measures attentions against length",
          .folder = "attention",
          .example = "attention/long_sequence.cfg",
          .quick = "fewer lengths and repeats"};
}

double LongSequenceStudy::planned_seconds(const ModelConfig& model, std::int64_t length,
                                          std::size_t rows) const {
  const double own = kSetUpSeconds / double(rows), step = step_flops(model, length) / kRate;
  if (step > knobs_.step_limit) return own;
  return own + 4 * step / 3 +
         std::min(knobs_.time_budget / double(rows), 4 * step / 3 * knobs_.repeats);
}

std::vector<Point> LongSequenceStudy::points(const RowFile& file, const RunOptions& options) {
  if (knobs_.repeats < 1 || !(knobs_.time_budget > 0) || !(knobs_.step_limit > 0)) {
    throw UserError("--repeats " + print_value(knobs_.repeats) + ", --time-budget " +
                    print_value(knobs_.time_budget) + ", --step-limit " +
                    print_value(knobs_.step_limit) +
                    ": give at least one repeat and positive numbers of seconds");
  }
  quick_ = options.quick;
  std::vector<std::string> names;
  const std::vector<ModelRow> rows = model_rows(file);
  for (const ModelRow& row : rows) names.push_back(row.name);
  require_known_rows(options.rows, names, file.experiment);
  std::vector<Point> points;
  for (const std::int64_t length : parse_counts("lengths", knobs_.lengths, 2)) {
    const std::string suffix = "_l" + std::to_string(length);
    for (const ModelRow& row : rows) {
      if (!is_wanted(options.rows, row.name)) continue;
      Point point;
      point.row = row.name + suffix;
      point.against = row.against + suffix;
      point.threads = options.threads.front();
      point.seed = row.model.seed;
      point.settings = attention_settings(row.model);
      const Settings more = {{"quick", print_value(quick_)},
                             {"length", std::to_string(length)},
                             {"dropout", "0"},
                             {"repeats", print_value(knobs_.repeats)},
                             {"time_budget", print_value(knobs_.time_budget)}};
      point.settings.insert(point.settings.end(), more.begin(), more.end());
      point.flags = {{"rows", row.name}, {"lengths", std::to_string(length)}};
      point.seconds = planned_seconds(row.model, length, rows.size());
      subjects_[point.row] = {row, length, point};
      points.push_back(std::move(point));
    }
  }
  return points;
}

std::vector<std::vector<std::size_t>> LongSequenceStudy::groups(
    std::span<const Point* const> points) const {
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < points.size(); ++i) {
    by_length[subject_of(*points[i]).length].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (const auto& [length, group] : by_length) groups.push_back(group);
  return groups;
}

std::string LongSequenceStudy::reason_to_skip(const Subject& subject, Sink& sink) const {
  const ModelConfig& model = subject.row.model;
  const Subject* shorter = nullptr;
  double step_ms = 0, heap = 0;
  for (const auto& [name, other] : subjects_) {
    if (other.row.name != subject.row.name || other.length >= subject.length) continue;
    if (shorter && other.length < shorter->length) continue;
    const std::vector<Record> found = sink.earlier(other.point);
    if (newest(found, "step_ms") <= 0) continue;
    shorter = &other;
    step_ms = newest(found, "step_ms");
    heap = newest(found, "heap_bytes");
  }
  double needed = core_input_bytes(model, subject.length);
  if (shorter) {
    const double seconds =
        1e-3 * step_ms * step_flops(model, subject.length) / step_flops(model, shorter->length);
    if (seconds > knobs_.step_limit) {
      return "a training step would take about " + readable_seconds(seconds) +
             ", more than --step-limit, " + readable_seconds(knobs_.step_limit);
    }
    needed += heap * double(subject.length) / double(shorter->length);
  }
  const auto available = double(available_memory());
  if (needed <= kMostMemory * available) return "";
  return "it would take about " + readable_bytes(needed) + " of memory, and " +
         readable_bytes(available) + " are available";
}

void LongSequenceStudy::measure(std::span<const Point* const> group, Sink& sink) {
  std::vector<const Point*> open;
  std::vector<ModelConfig> models;
  const std::int64_t length = subject_of(*group.front()).length;
  for (const Point* point : group) {
    const Subject& subject = subject_of(*point);
    const std::string reason = reason_to_skip(subject, sink);
    if (!reason.empty()) {
      sink.skip(*point, reason, {.config = {{"step_limit", knobs_.step_limit}}});
      continue;
    }
    open.push_back(point);
    models.push_back(subject.row.model);
  }
  if (open.empty()) return;
  sink.live("length " + std::to_string(length));
  const CoreSetting setting = {length, open.front()->threads, knobs_.repeats, knobs_.time_budget,
                               quick_ ? kQuickGemmSize : kGemmSize};
  const auto costs =
      in_child([&] { return nlohmann::json(measure_cores(models, setting)); }).get<CoreCosts>();
  for (std::size_t i = 0; i < open.size(); ++i) {
    const CoreCost& cost = costs.rows[i];
    const std::vector<Metric> metrics = metrics_of(costs, cost, length);
    char text[48];
    std::snprintf(text, sizeof text, ": %.4g ms a step", summarize(metrics.back().values).median);
    Extra extra{.config = {{"gemm", costs.gemm}}, .line = open[i]->row + text};
    if (!cost.warm) extra.note = "one forward and one step, the first: not warmed up, no spread";
    sink.close(*open[i], metrics, extra);
  }
}

}  // namespace scaling
