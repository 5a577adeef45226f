// Every paper case x kernel set x weight type under one stopwatch, each checked against ref before
// it is timed.
//
// Names are kernel/shape/set/type/tokens, with /warm where the same weights are read again and
// again; otherwise calls rotate through more weights than the last-level cache holds. The
// stopwatch's own /real_time ends each name. For example
//   bench_kernels --benchmark_filter='multiplicative/.*/simd/f32/1/real' --threads 2
#pragma once

#include <memory>
#include <string>

#include "experiments/machine/stopwatch.h"
#include "kernels/simd/simd.h"

namespace scaling {

/// Who asks for the simd set's streams of weights.
enum class PrefetchBy { automatic, kernel, processor };
constexpr std::array<const char*, 3> names_of(PrefetchBy) {
  return {"auto", "kernel", "processor"};
}

struct KernelKnobs {
  PrefetchBy prefetch = PrefetchBy::automatic;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("prefetch", k.prefetch,
          "who asks for the simd set's streams of weights: kernel, processor, or auto, the better");
  }
};

class KernelBench;

class KernelStudy : public StopwatchStudy {
 public:
  KernelStudy();
  ~KernelStudy() override;
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

 protected:
  void add_all(const RunOptions& options) override;
  Settings settings() const override { return {{"prefetch", print_value(knobs_.prefetch)}}; }

 private:
  KernelKnobs knobs_;
  std::unique_ptr<KernelBench> bench_;  ///< once the first case runs
};

}  // namespace scaling
