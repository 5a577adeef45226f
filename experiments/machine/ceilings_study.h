// The machine's limits as an experiment of its own: reading, multiplying, meeting at a barrier,
// large products.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "kernels/arena.h"
#include "kernels/team.h"

namespace scaling {

struct CeilingKnobs {
  bool pin = false;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("pin", k.pin, "bind each thread to a processor");
  }
};

/// One limit at one thread count.
struct CeilingCase {
  enum class Kind { read, fma, bf16_dot, barrier, gemm };
  Kind kind = Kind::read;
  std::string row;     ///< read_16MiB, fma, bf16_dot, barrier, gemm_openblas, gemm_openblas_1024
  std::string metric;  ///< read_gbps, fma_gflops, bf16_dot_gflops, barrier_us, gemm_gflops,
                       ///< gemm_gflops_1024
  std::string unit;
  int threads = 1;
  std::uint64_t size = 0;  ///< bytes read, or rows of the square matrices
  std::string library;     ///< kernel set of a gemm
};

class CeilingStudy : public Study {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override;
  void measure(std::span<const Point* const> group, Sink& sink) override;
  Metric closing(const Point& point) const override;

 private:
  const CeilingCase& case_of(const Point& point) const;
  double once(const CeilingCase& one);
  /// Memory whose pages are all written; throws UserError if there is not so much.
  const void* memory(std::uint64_t bytes);
  Team& team(int threads);

  CeilingKnobs knobs_;
  bool quick_ = false;
  int most_threads_ = 1;
  std::vector<CeilingCase> cases_;
  Arena arena_;
  std::uint64_t arena_bytes_ = 0;
  std::map<int, std::unique_ptr<Team>> teams_;
};

}  // namespace scaling
