// Cases to benchmarks, and what a benchmark runs.
#include "experiments/machine/kernels_study.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "experiments/machine/tile_products.h"
#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/cases.h"
#include "kernels/ceilings.h"
#include "kernels/check.h"
#include "kernels/clock.h"
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

/// Who asks for the simd set's streams of weights.
enum class PrefetchBy { automatic, kernel, kernel_far, four, two };
constexpr std::array<const char*, 5> names_of(PrefetchBy) {
  return {"auto", "kernel", "kernel_far", "four", "two"};
}

void set_way(PrefetchBy by) {
  switch (by) {
    case PrefetchBy::automatic:
      return;
    case PrefetchBy::kernel:
      return simd::set_prefetch_by(simd::Prefetch::by_kernel);
    case PrefetchBy::kernel_far:
      return simd::set_prefetch_by(simd::Prefetch::by_kernel_far);
    case PrefetchBy::four:
      return simd::set_prefetch_by(simd::Prefetch::by_processor_of_four);
    case PrefetchBy::two:
      return simd::set_prefetch_by(simd::Prefetch::by_processor_of_two);
  }
}

struct KernelKnobs {
  PrefetchBy prefetch = PrefetchBy::automatic;
  bool tiles = true;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("prefetch", k.prefetch,
          "who asks for the simd set's streams of weights: kernel, or the processor along four or "
          "two of them, or auto, the best");
    visit("tiles", k.tiles,
          "whether bf16_dot's modular kernels use the processor's tiles (AMX), if it has any");
  }
};

/// One problem at a time is in memory: the sets that follow each other share it, and its limits.
class KernelBench {
 public:
  explicit KernelBench(int threads) : team_(threads), rotation_(rotation_bytes()) {}

  /// Throws UserError if the set differs from ref or memory does not hold the case.
  void run(benchmark::State& state, const Case& c, const KernelSet& set, WeightType type,
           bool warm) {
    const bool is_dense = c.kernel.starts_with("dense");
    prepare(c, type, is_dense ? set.dense_layout(type) : Layout::rows);
    if (const std::string wrong = problem_->check(set); !wrong.empty()) {
      throw UserError("it differs from ref: " + wrong);
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
  }

 private:
  void prepare(const Case& c, WeightType type, Layout layout) {
    if (case_ == &c && type_ == type && layout_ == layout) return;
    problem_.reset();  // before the next is made: two may not fit
    case_ = nullptr;
    ProblemOptions options;
    options.type = type;
    options.rotate_bytes = rotation_;
    options.dense_layout = layout;
    problem_ = std::make_unique<CheckedProblem>(c, options, team_);
    case_ = &c;
    type_ = type;
    layout_ = layout;
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
  Layout layout_ = Layout::rows;
  std::unique_ptr<CheckedProblem> problem_;
  std::int64_t cold_call_ = 0, warm_call_ = 0;
  Clock::time_point measured_;
  double read_rate_ = 0, fma_rate_ = 0, dot_rate_ = 0;
};

class KernelStudy : public StopwatchStudy {
 public:
  StudyInfo info() const override {
    return {.name = "kernels",
            .program = "bench_kernels",
            .about = "times every kernel on weights that no cache holds",
            .folder = "machine",
            .threads = "1"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

 protected:
  void add_all(const RunOptions& options) override {
    set_way(knobs_.prefetch);
    bf16_dot::set_tiles(knobs_.tiles);
    const int threads = options.threads.front();
    for (const Case& c : paper_cases()) {
      for (const WeightType type : weight_types(c)) {
        for (const KernelSet* set : kernel_sets()) {
          if (!is_own(*set, c.kernel, type)) continue;
          const std::string name = c.kernel + "/" + c.shape + "/" + set->name + "/" +
                                   name_of(type) + "/" + std::to_string(c.tokens);
          for (const bool warm : {false, true}) {
            // Without weights there is nothing to keep cold.
            if (!warm && !c.typed && !c.kernel.starts_with("attend")) continue;
            add(warm ? name + "/warm" : name, threads,
                [this, threads, &c, set, type, warm](benchmark::State& state) {
                  if (!bench_) bench_.emplace(threads);
                  bench_->run(state, c, *set, type, warm);
                });
          }
        }
      }
    }
    // Threads share heads, not tiles.
    if (threads > 1) return;
    for (TileBenchmark& tile : tile_benchmarks()) add(tile.name, threads, std::move(tile.run));
  }

  Settings settings() const override {
    return {{"prefetch", print_value(knobs_.prefetch)}, {"tiles", print_value(knobs_.tiles)}};
  }

 private:
  KernelKnobs knobs_;
  std::optional<KernelBench> bench_;  ///< once the first case runs
};

}  // namespace

std::unique_ptr<StopwatchStudy> make_kernel_study() { return std::make_unique<KernelStudy>(); }

}  // namespace scaling
