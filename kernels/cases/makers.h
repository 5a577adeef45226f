// One maker of cases for every kernel.
#pragma once

#include <string>

#include "kernels/cases.h"
#include "kernels/cases/problem.h"

namespace scaling {

/// What every maker needs besides sizes.
struct Setting {
  std::string shape;  ///< name of the case's shape
  int tokens = 1;
  Values values = Values::normal;
  int misalign = 0;  ///< elements past a 64-byte border, for all pointers
};

struct DenseSizes {
  std::int64_t in, out;
  /// Computed outputs (dense) or summed inputs (dense_transposed); a negative end means all.
  Range range = {0, -1};
  /// More than one: a call computes one slice of the range, the next call another (mixture of
  /// experts).
  int slices = 1;
  bool bias = true;
  bool relu = false;
};
Case dense_case(const Setting& setting, const DenseSizes& sizes);
/// w is (in, out).
Case dense_transposed_case(const Setting& setting, const DenseSizes& sizes);

struct ControllerSizes {
  std::int64_t rank, d_ff, block;
  Range blocks = {0, -1};
};
Case controller_case(const Setting& setting, const ControllerSizes& sizes);

struct GatherSizes {
  std::int64_t d, blocks, block;  ///< blocks * block rows of d; each token asks for one row a block
  std::int64_t selections = -1;   ///< only so many of the list; negative: all
  bool bias = true;
};
Case gather_dot_case(const Setting& setting, const GatherSizes& sizes);
Case gather_accumulate_case(const Setting& setting, const GatherSizes& sizes);

struct MultiplicativeSizes {
  std::int64_t in, modules, width;  ///< d_in, S, M
  Range inputs = {0, -1};
  Range columns = {0, -1};
};
Case multiplicative_case(const Setting& setting, const MultiplicativeSizes& sizes);

struct ConvolutionSizes {
  std::int64_t modules, width, width_out;  ///< S, M, M_out
  int taps, module_taps;                   ///< F, k
  int padding = 1;
  Range tap_rows = {0, -1};
  Range columns = {0, -1};
};
Case convolution_case(const Setting& setting, const ConvolutionSizes& sizes);

/// offset is added to all inputs: a mean far from zero beside a small deviation.
Case layer_norm_case(const Setting& setting, std::int64_t d, float offset = 0);
/// Inputs in (-spread, spread).
Case softmax_case(const Setting& setting, std::int64_t n, float spread = 4);
Case argmax_case(const Setting& setting, std::int64_t n);
/// `heads` heads of one token over `length` cached positions, of which each meets `met` anywhere,
/// or with 0 all; spread scales the query.
Case attend_case(const Setting& setting, std::int64_t heads, std::int64_t length,
                 std::int64_t d_head, float spread = 1, std::int64_t met = 0);
Case attend_entmax_case(const Setting& setting, double alpha, std::int64_t heads,
                        std::int64_t length, std::int64_t d_head, float spread = 1,
                        std::int64_t met = 0);

/// A range whose negative end stands for `n`.
inline Range whole_if_open(Range range, std::int64_t n) {
  return range.end < 0 ? Range{range.begin, n} : range;
}

}  // namespace scaling
