// What an attention costs at one length, from its queries, keys and values to its output, measured
// in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/config.h"

namespace scaling {

/// Evaluation, or a training forward and its backward.
struct RunCost {
  double heap_bytes = 0;  ///< left allocated by the first one: kept values and buffers
  double peak_bytes = 0;  ///< resident in it, over what inputs and outputs take; 0: unknown
  /// Products of the definition, over the pairs of positions that may see each other; neither what
  /// is masked once multiplied nor what backward makes again counts.
  double flops = 0;
  std::vector<double> seconds;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunCost, heap_bytes, peak_bytes, flops, seconds)

/// An attention, and whether keys after a query are hidden from it.
struct CoreRow {
  ModelConfig model;
  bool causal = true;
};

struct CoreCost {
  RunCost forward, step;
  double pairs = 0;   ///< of a query and a key that meet, in all heads; 0: pairs are not scored
  bool warm = false;  ///< false: the only forward and the only step were the first
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoreCost, forward, step, pairs, warm)

struct CoreSetting {
  std::int64_t length = 0;
  int threads = 1;
  int repeats = 1;
  double seconds = 0;
  std::int64_t gemm_size = 2048;  ///< of the product that tells the library's rate
};

struct CoreCosts {
  std::vector<CoreCost> rows;
  std::string gemm;        ///< library of the products
  double gemm_gflops = 0;  ///< of the fastest one on a large product, just before
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoreCosts, rows, gemm, gemm_gflops)

/// One of CoreCosts::rows for each row, all of one d_model. A row's first forward and first step
/// tell its memory; parameters and their gradients do not count. Rows whose first ones together
/// take no longer than `seconds`, the shortest first, then take turns in random order, clocked
/// anew, until `repeats` or `seconds` are reached; of the others the first ones are the
/// measurement. Throws Interrupted between two runs.
CoreCosts measure_cores(const std::vector<CoreRow>& rows, const CoreSetting& setting);

/// Indices of the shortest, as many as fit into `seconds` together.
std::vector<std::size_t> shortest_within(const std::vector<double>& each, double seconds);

/// Bytes of the matrices that a training step reads and writes: q, k, v, o and their gradients.
double core_input_bytes(const ModelConfig& model, std::int64_t length);

}  // namespace scaling
