// One call of Google Benchmark a point, its iterations handed to the Sink.
#include "experiments/machine/stopwatch.h"

#include <algorithm>
#include <map>
#include <regex>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "models/knobs.h"
#include "models/train_config.h"

namespace scaling {
namespace {

constexpr double kPointSeconds = 1;  // for the plan only
constexpr double kMostSeconds = 3600, kMostRepetitions = 10000;
constexpr const char* kEnding = "/real_time";

/// Keeps the runs; says nothing, not even that the library of the distribution was built without
/// NDEBUG: that slows its bookkeeping between runs, not the loops that are timed.
class Runs : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration) all.push_back(run);
    }
  }
  std::vector<Run> all;
};

std::string quoted(const std::string& name) {
  static const std::regex special(R"re([.^$|()\[\]{}*+?\\])re");
  return "^" + std::regex_replace(name, special, R"(\$&)") + "$";
}

/// As Google Benchmark reads its filter: anywhere in the name, and what a leading - says is left
/// out.
bool passes(const std::string& name, std::string filter) {
  if (filter.empty() || filter == "all") return true;
  const bool out = filter.front() == '-';
  if (out) filter.erase(0, 1);
  try {
    return std::regex_search(name, std::regex(filter, std::regex::extended)) != out;
  } catch (const std::regex_error& error) {
    throw UserError("--benchmark_filter '" + filter + "' is no pattern: " + error.what());
  }
}

void print_help() {}

/// Google Benchmark takes these as they come, and never ends, or measures nothing. A time may have
/// an s behind it, as its later versions want.
void require_sound(const std::string& argument) {
  const auto is_within = [&argument](const char* flag, double least, double most) {
    const std::string start = std::string(flag) + "=";
    if (argument.rfind(start, 0) != 0) return;
    std::string text = argument.substr(start.size());
    if (least == 0 && text.ends_with('s')) text.pop_back();
    double value = 0;
    parse_value(flag, text, value);
    require_within(flag, value, least, most);
  };
  is_within("--benchmark_min_time", 0, kMostSeconds);
  is_within("--benchmark_min_warmup_time", 0, kMostSeconds);
  is_within("--benchmark_repetitions", 1, kMostRepetitions);
}

}  // namespace

int StopwatchStudy::main(int argc, char** argv) {
  const auto asks_for = [&](const std::string& flag) {
    return std::any_of(argv + 1, argv + argc, [&flag](const char* a) { return a == flag; });
  };
  if (asks_for("--help")) return run_study(*this, argc, argv);
  const bool lists = asks_for("--benchmark_list_tests") || asks_for("--benchmark_list_tests=true");
  return run_experiment([&] {
    for (int i = 1; i < argc; ++i) require_sound(argv[i]);
    benchmark::Initialize(&argc, argv, print_help);
    if (!lists) return run_study(*this, argc, argv);
    add_all(parse_run_options(*this, argc, argv));
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  });
}

void StopwatchStudy::add(const std::string& name, int threads,
                         std::function<void(benchmark::State&)> run) {
  Point& point = all_.emplace_back();
  point.row = point.against = name + kEnding;
  point.threads = threads;
  point.settings = settings();
  point.flags = {{"rows", point.row}};
  point.seconds = kPointSeconds;
  benchmark::RegisterBenchmark(name.c_str(), [this, run = std::move(run)](benchmark::State& state) {
    try {
      run(state);
    } catch (const UserError& error) {
      error_ = error.what();
      state.SkipWithError(error.what());
    }
  })->UseRealTime();
}

std::vector<Point> StopwatchStudy::points(const RowFile& file, const RunOptions& options) {
  add_all(options);
  std::vector<std::string> names;
  for (const Point& point : all_) names.push_back(point.row);
  require_known_rows(options.rows, names, file.experiment);
  std::vector<Point> points;
  for (const Point& point : all_) {
    const bool passed = passes(point.row, benchmark::GetBenchmarkFilter());
    if (passed && is_wanted(options.rows, point.row)) points.push_back(point);
  }
  if (points.empty()) {
    throw UserError("no benchmark matches the filter; --benchmark_list_tests lists all");
  }
  return points;
}

void StopwatchStudy::measure(Points group, Sink& sink) {
  for (const Point* point : group) {
    check_interrupt();
    sink.live(point->row);
    Runs runs;
    error_.clear();
    benchmark::RunSpecifiedBenchmarks(&runs, quoted(point->row));
    if (!error_.empty()) throw UserError(error_);
    if (runs.all.empty()) {
      throw UserError(
          "Google Benchmark handed over no repetition, only what it made of them; leave out "
          "--benchmark_report_aggregates_only, the median is recorded anyway");
    }
    std::map<std::string, std::vector<double>> counters;
    Metric time = closing(*point);
    for (const auto& run : runs.all) {
      time.values.push_back(1e6 * run.real_accumulated_time / double(run.iterations));
      for (const auto& [name, counter] : run.counters) counters[name].push_back(counter.value);
    }
    std::vector<Metric> metrics;
    for (const auto& [name, values] : counters) metrics.push_back({name, "", values});
    Extra extra;
    extra.samples = {{"columns", {time.name}}, {"rows", nlohmann::ordered_json::array()}};
    for (const double value : time.values) extra.samples["rows"].push_back({value});
    metrics.push_back(std::move(time));
    sink.close(*point, metrics, extra);
  }
}

}  // namespace scaling
