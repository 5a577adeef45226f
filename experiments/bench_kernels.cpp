// Every paper case x kernel set x weight type under one stopwatch, each checked against ref before
// it is timed.
//
// Names are kernel/shape/set/type/tokens, with /warm where the same weights are read again and
// again; otherwise calls rotate through more weights than the last-level cache holds. The
// stopwatch's own /real_time ends each name. For example
//   bench_kernels --benchmark_filter='multiplicative/.*/simd/f32/1/real' --threads 2
#include <benchmark/benchmark.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>
#include <memory>

#include "kernels/cases.h"
#include "kernels/ceilings.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/libraries.h"
#include "kernels/simd/simd.h"

namespace scaling {
namespace {

/// Twice what the caches hold, and no more than a gibibyte.
std::uint64_t rotation_bytes() {
  std::uint64_t largest = 32 << 20;
  for (const auto& cache : benchmark::CPUInfo::Get().caches) {
    largest = std::max(largest, std::uint64_t(cache.size));
  }
  return std::min(2 * largest, std::uint64_t(1) << 30);
}

/// One problem at a time is in memory: the sets that follow each other share it, and its limits.
class Bench {
 public:
  explicit Bench(int threads) : team_(threads), rotation_(rotation_bytes()) {}

  void run(benchmark::State& state, const Case& c, const KernelSet& set, WeightType type,
           bool warm) try {
    prepare(c, type);
    if (const std::string wrong = problem_->check(set); !wrong.empty()) {
      ++wrong_;
      return state.SkipWithError(("differs from ref: " + wrong).c_str());
    }
    Problem& problem = problem_->problem();
    problem.reset();
    // The first iterations of one run follow the last of another on, so that calibration warms
    // nothing.
    std::int64_t& call = warm ? warm_call_ : cold_call_;
    const std::int64_t step = warm ? 0 : 1;
    const Clock::time_point start = Clock::now();
    if (team_.threads() == 1) {
      for (auto _ : state) problem.run(set, call += step, 0);
    } else {
      for (auto _ : state) {
        call += step;
        team_.run([&](int thread) { problem.run(set, call, thread); });
      }
    }
    const double seconds = seconds_since(start);
    report(state, problem, set.rounds(type), warm, seconds / double(state.iterations()));
  } catch (const UserError& error) {  // memory does not hold the case
    state.SkipWithError(error.what());
  }

  /// Cases that differ from ref, which were not timed.
  int wrong() const { return wrong_; }

 private:
  void prepare(const Case& c, WeightType type) {
    if (case_ == &c && type_ == type) return;
    problem_.reset();  // before the next is made: two may not fit
    case_ = nullptr;
    ProblemOptions options;
    options.type = type;
    options.rotate_bytes = rotation_;
    problem_ = std::make_unique<CheckedProblem>(c, options, team_);
    case_ = &c;
    type_ = type;
    measured_ = {};
  }

  /// The limits beside the case, no older than two seconds.
  void measure(const Problem& problem) {
    if (measured_ != Clock::time_point() && seconds_since(measured_) < 2) return;
    read_rate_ = measure_read_rate(team_, problem.weights(), problem.weight_bytes());
    fma_rate_ = measure_fma_rate(team_);
    dot_rate_ = measure_bf16_dot_rate(team_);
    measured_ = Clock::now();
  }

  void report(benchmark::State& state, const Problem& problem, bool rounds, bool warm,
              double seconds) {
    const Phase cost = problem.cost();
    state.counters["bytes/s"] = cost.bytes / seconds;
    state.counters["FLOP/s"] = cost.flops / seconds;
    // Warm weights have no measured ceiling: they may lie in any of the caches.
    if (warm || problem.weight_bytes() == 0) return;
    measure(problem);
    const double compute_rate = rounds ? std::max(fma_rate_, dot_rate_) : fma_rate_;
    state.counters["%ceiling"] = 100 * floor_seconds({cost}, read_rate_, compute_rate) / seconds;
  }

  Team team_;
  const std::uint64_t rotation_;
  const Case* case_ = nullptr;
  WeightType type_ = WeightType::f32;
  std::unique_ptr<CheckedProblem> problem_;
  std::int64_t cold_call_ = 0, warm_call_ = 0;
  Clock::time_point measured_;
  double read_rate_ = 0, fma_rate_ = 0, dot_rate_ = 0;
  int wrong_ = 0;
};

void register_all(Bench& bench) {
  for (const Case& c : paper_cases()) {
    for (const WeightType type : weight_types(c)) {
      for (const KernelSet* set : kernel_sets()) {
        if (!is_own(*set, c.kernel, type)) continue;
        std::string name = c.kernel + "/" + c.shape + "/" + set->name + "/" + name_of(type) + "/" +
                           std::to_string(c.tokens);
        for (const bool warm : {false, true}) {
          // Without weights there is nothing to keep cold.
          if (!warm && !c.typed && c.kernel != "attend") continue;
          const std::string full = warm ? name + "/warm" : name;
          benchmark::RegisterBenchmark(full.c_str(), [&bench, &c, set, type,
                                                      warm](benchmark::State& state) {
            bench.run(state, c, *set, type, warm);
          })->UseRealTime();
        }
      }
    }
  }
}

/// Sets what --prefetch says and returns the threads of the team; Google Benchmark has taken its
/// own flags out before.
int parse_flags(int argc, char** argv) {
  namespace po = boost::program_options;
  po::options_description flags("bench_kernels [--benchmark_...]");
  int threads = 1;
  std::string prefetch;
  flags.add_options()("threads", po::value(&threads)->default_value(1),
                      "threads that share each call")(
      "prefetch", po::value(&prefetch)->default_value("auto"),
      "who asks for the simd set's streams of weights: kernel, processor, or auto, the better");
  try {
    po::variables_map values;
    po::store(po::parse_command_line(
                  argc, argv, flags,
                  po::command_line_style::unix_style ^ po::command_line_style::allow_guessing),
              values);
    po::notify(values);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) +
                    "; known are --threads, --prefetch and Google Benchmark's own, shown by "
                    "--help");
  }
  if (threads < 1 || threads > available_threads()) {
    throw UserError("--threads " + std::to_string(threads) + " is not in [1, " +
                    std::to_string(available_threads()) + "], the processors this process may use");
  }
  if (prefetch == "kernel") {
    simd::set_prefetch_by(simd::Prefetch::by_kernel);
  } else if (prefetch == "processor") {
    simd::set_prefetch_by(simd::Prefetch::by_processor);
  } else if (prefetch != "auto") {
    throw UserError("--prefetch '" + prefetch + "' is none of kernel, processor, auto");
  }
  return threads;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  const int threads = scaling::parse_flags(argc, argv);
  benchmark::AddCustomContext("team_threads", std::to_string(threads));
  for (const scaling::KernelSet* set : scaling::kernel_sets()) {
    benchmark::AddCustomContext("set_" + set->name, set->description);
  }
  scaling::Bench bench(threads);
  scaling::register_all(bench);
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    throw scaling::UserError("no benchmark matches the filter; --benchmark_list_tests lists all");
  }
  if (bench.wrong() > 0) {
    std::cerr << "bench_kernels: " << bench.wrong()
              << " cases differ from ref and were not timed; ERROR OCCURRED above names them\n";
    return 1;
  }
  return 0;
} catch (const scaling::UserError& error) {
  std::cerr << "bench_kernels: " << error.what() << "\n";
  return 2;
}
