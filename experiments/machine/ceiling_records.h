// The measurements behind the driver `ceilings`: cases, a meter, their records.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/study/record.h"
#include "kernels/arena.h"

namespace scaling {

struct CeilingOptions {
  std::vector<std::string> rows;  ///< empty: all
  std::vector<int> threads;
  std::string results;
  bool force = false, quick = false, pin = false, help = false;
};

/// Throws UserError.
CeilingOptions parse_ceiling_options(int argc, const char* const* argv);
std::string ceiling_help();

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

/// Throws UserError that lists the known rows if one is not.
std::vector<CeilingCase> ceiling_cases(const CeilingOptions& options);

/// Owns the memory and the teams.
class CeilingMeter {
 public:
  /// Throws UserError if there is no memory for the largest read among the cases.
  CeilingMeter(const CeilingOptions& options, const std::vector<CeilingCase>& cases);
  /// Repeated values in the case's unit. Throws Interrupted between two of them.
  std::vector<double> measure(const CeilingCase& one);

 private:
  double once(const CeilingCase& one);
  const CeilingOptions options_;
  Arena arena_;
  std::map<int, std::unique_ptr<Team>> teams_;
};

/// Everything but the value.
Record ceiling_record(const CeilingCase& one, const CeilingOptions& options,
                      const Provenance& provenance);

}  // namespace scaling
