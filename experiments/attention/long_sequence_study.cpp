// Rows and lengths to points, costs to metrics, shorter lengths to what a longer one would cost.
#include "experiments/attention/long_sequence_study.h"

#include <algorithm>
#include <cstdio>

#include "experiments/attention/core_measure.h"
#include "experiments/attention/core_rows.h"
#include "experiments/instruments/child_process.h"
#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/model_row.h"
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

struct LongSequenceKnobs {
  std::string lengths = "512,1024,2048,4096,8192,16384,32768,65536";
  int repeats = 9;
  double time_budget = 60;
  double step_limit = 60;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("lengths", k.lengths, "positions", Trait{.quick = "512,1024,2048,4096,8192"});
    visit("repeats", k.repeats, "of a length, at most", Trait{.quick = "3"});
    visit("time-budget", k.time_budget, "seconds for the repeats of a length",
          Trait{.quick = "6", .in_key = InKey::no});
    visit("step-limit", k.step_limit, "seconds: a training step expected to take longer is skipped",
          Trait{.in_key = InKey::no});
  }
};

double step_flops(const CoreRow& row, std::int64_t length) {
  const auto attention = make_self_attention(row.model);
  return attention->work(length, row.causal).step_flops(row.model.d_head());
}

/// All metrics of a row at one length, the closing one last.
std::vector<Metric> metrics_of(const CoreCosts& costs, const CoreCost& cost, std::int64_t length) {
  const RunCost &forward = cost.forward, &step = cost.step;
  const double rate = costs.gemm_gflops * 1e9, tokens = double(length);
  std::vector<Metric> metrics;
  const auto add = [&](const char* name, const char* unit, double value) {
    metrics.push_back({name, unit, {value}});
  };
  const auto add_each = [&](const char* name, const char* unit, const RunCost& run,
                            const auto& value_of) {
    metrics.push_back({name, unit});
    for (const double s : run.seconds) metrics.back().values.push_back(value_of(s));
  };
  add("heap_bytes", "B", step.heap_bytes);
  if (step.peak_bytes > 0) add("peak_bytes", "B", step.peak_bytes);
  add("forward_heap_bytes", "B", forward.heap_bytes);
  if (forward.peak_bytes > 0) add("forward_peak_bytes", "B", forward.peak_bytes);
  add("gemm_gflops", "GFLOP/s", costs.gemm_gflops);
  if (cost.pairs > 0) add("pairs", "pairs", cost.pairs);
  add("forward_flops", "FLOP", forward.flops);
  add("step_flops", "FLOP", step.flops);
  add_each("forward_efficiency", "1", forward, [&](double s) { return forward.flops / s / rate; });
  add_each("step_efficiency", "1", step, [&](double s) { return step.flops / s / rate; });
  add_each("step_tokens_per_s", "tokens/s", step, [&](double s) { return tokens / s; });
  add_each("step_us_per_token", "us", step, [&](double s) { return 1e6 * s / tokens; });
  add_each("forward_ms", "ms", forward, [](double s) { return 1e3 * s; });
  add_each("step_ms", "ms", step, [](double s) { return 1e3 * s; });
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

class LongSequenceStudy : public ModelStudy {
 public:
  StudyInfo info() const override {
    return {.name = "attention",
            .program = "long_sequence",
            .about = "measures attentions against length",
            .folder = "attention",
            .example = "attention/long_sequence.cfg",
            .quick = "fewer lengths and repeats"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<KnobInfo> row_knobs() const override { return core_row_knobs(); }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    if (knobs_.repeats < 1 || !(knobs_.time_budget > 0) || !(knobs_.step_limit > 0)) {
      throw UserError("--repeats " + print_value(knobs_.repeats) + ", --time-budget " +
                      print_value(knobs_.time_budget) + ", --step-limit " +
                      print_value(knobs_.step_limit) +
                      ": give at least one repeat and positive numbers of seconds");
    }
    quick_ = options.quick;
    const std::vector<CoreFileRow> rows = core_rows(file);
    require_known_rows(options.rows, names_of(rows), file.experiment);
    std::vector<Point> points;
    for (const std::int64_t length : parse_counts("lengths", knobs_.lengths, 2)) {
      for (const CoreFileRow& row : rows) {
        if (!is_wanted(options.rows, row.name)) continue;
        CoreRow core = {row.model, row.causal};
        core.model.max_length = length;  // for attentions that have weights for so many positions
        points.push_back(point_at(row, length, options.threads.front()));
        points.back().seconds = planned_seconds(core, length, rows.size());
        subjects_[points.back().row] = {row.name, core, length, points.back()};
      }
    }
    return points;
  }

  /// All rows of a length.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [this](const Point& point) { return subject_of(point).length; });
  }

  Metric closing(const Point&) const override { return {.name = "step_ms", .unit = "ms"}; }

  /// In a process of its own.
  void measure(Points group, Sink& sink) override {
    std::vector<const Point*> open;
    std::vector<CoreRow> rows;
    const std::int64_t length = subject_of(*group.front()).length;
    double held = 0;  // bytes that rows before have in the same process
    for (const Point* point : group) {
      const Subject& subject = subject_of(*point);
      const std::string reason = reason_to_skip(subject, sink, held);
      if (!reason.empty()) {
        sink.skip(*point, reason, {.config = {{"step_limit", knobs_.step_limit}}});
        continue;
      }
      open.push_back(point);
      rows.push_back(subject.core);
    }
    if (open.empty()) return;
    sink.live("length " + std::to_string(length));
    const CoreSetting setting = {length, open.front()->threads, knobs_.repeats, knobs_.time_budget,
                                 quick_ ? kQuickGemmSize : kGemmSize};
    const CoreCosts costs = in_child([&] { return measure_cores(rows, setting); });
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::vector<Metric> metrics = metrics_of(costs, costs.rows[i], length);
      char text[48];
      std::snprintf(text, sizeof text, ": %.4g ms a step", summarize(metrics.back().values).median);
      Extra extra{.config = {{"gemm", costs.gemm}}, .line = open[i]->row + text};
      if (!costs.rows[i].warm) {
        extra.note = "one forward and one step, the first: not warmed up, no spread";
      }
      sink.close(*open[i], metrics, extra);
    }
  }

 private:
  struct Subject {
    std::string name;  ///< of the row
    CoreRow core;
    std::int64_t length = 0;
    Point point;
  };

  Point point_at(const CoreFileRow& row, std::int64_t length, int threads) const {
    const std::string text = std::to_string(length);
    Point point = point_of(row, threads, attention_settings(row.model, row.causal),
                           {{"quick", print_value(quick_)},
                            {"length", text},
                            {"dropout", "0"},
                            {"repeats", print_value(knobs_.repeats)},
                            {"time_budget", print_value(knobs_.time_budget)}});
    point.row += "_l" + text;
    point.against += "_l" + text;
    point.flags = {{"rows", row.name}, {"lengths", text}};
    return point;
  }

  double planned_seconds(const CoreRow& row, std::int64_t length, std::size_t rows) const {
    const double own = kSetUpSeconds / double(rows), step = step_flops(row, length) / kRate;
    if (step > knobs_.step_limit) return own;
    return own + 4 * step / 3 +
           std::min(knobs_.time_budget / double(rows), 4 * step / 3 * knobs_.repeats);
  }

  const Subject& subject_of(const Point& point) const { return subjects_.at(point.row); }

  /// Empty if the point can be measured; then what it will hold is added to `held`.
  std::string reason_to_skip(const Subject& subject, Sink& sink, double& held) const {
    const Subject* shorter = nullptr;
    double step_ms = 0, heap = 0;
    for (const auto& [name, other] : subjects_) {
      if (other.name != subject.name || other.length >= subject.length) continue;
      if (shorter && other.length < shorter->length) continue;
      const std::vector<Record> found = sink.earlier(other.point);
      if (newest(found, "step_ms") <= 0) continue;
      shorter = &other;
      step_ms = newest(found, "step_ms");
      heap = newest(found, "heap_bytes");
    }
    double own = 0;
    if (shorter) {
      const double seconds = 1e-3 * step_ms * step_flops(subject.core, subject.length) /
                             step_flops(shorter->core, shorter->length);
      if (seconds > knobs_.step_limit) {
        return "a training step would take about " + readable_seconds(seconds) +
               ", more than --step-limit, " + readable_seconds(knobs_.step_limit);
      }
      own = heap * double(subject.length) / double(shorter->length);
    }
    const auto available = double(available_memory());
    const double needed = core_input_bytes(subject.core.model, subject.length) + held + own;
    if (needed <= kMostMemory * available) {
      held += own;
      return "";
    }
    return "it would take about " + readable_bytes(needed) +
           " of memory with the rows before it, and " + readable_bytes(available) +
           " are available";
  }

  LongSequenceKnobs knobs_;
  bool quick_ = false;
  std::map<std::string, Subject> subjects_;  ///< by the point's name
};

}  // namespace

std::unique_ptr<Study> make_long_sequence_study() { return std::make_unique<LongSequenceStudy>(); }

}  // namespace scaling
