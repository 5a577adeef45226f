// Google Benchmark as the stopwatch of a study: each of its benchmarks is a point.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>

#include "experiments/study/study.h"

namespace scaling {

/// A study whose points are benchmarks. Google Benchmark's own flags (--benchmark_filter and the
/// like) work beside those of every study; --rows names benchmarks in full.
class StopwatchStudy : public Study {
 public:
  /// Takes Google Benchmark's flags out of the command line, --help and --benchmark_list_tests
  /// among them, then runs the study. Exit status as run_study's.
  int main(int argc, char** argv);

  std::vector<Point> points(const RowFile& file, const RunOptions& options) final;
  void measure(Points group, Sink& sink) final;
  Metric closing(const Point&) const final { return {.name = "us", .unit = "us"}; }

 protected:
  /// Calls add() for every benchmark: shapes only.
  virtual void add_all(const RunOptions& options) = 0;
  /// What distinguishes a benchmark beside its name.
  virtual Settings settings() const = 0;
  /// Counters of a run become metrics of their names. run: as Google Benchmark's, which may throw
  /// UserError.
  void add(const std::string& name, int threads, std::function<void(benchmark::State&)> run);

 private:
  std::vector<Point> all_;  ///< every benchmark, in their order
  std::string error_;       ///< of the one that runs
};

}  // namespace scaling
