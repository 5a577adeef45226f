// What attention multiplies of a tile in training (kernels/tile_product.h), beside the same by each
// library.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

namespace scaling {

struct TileBenchmark {
  std::string name;  ///< product/queries x keys x width/by what/f32/queries/warm
  std::function<void(benchmark::State&)> run;  ///< one thread's work
};

/// Products: tile_scores (queries times keys; ours with packing the keys), tile_values
/// (probabilities times values) and tile_keys (their transpose times queries), without spans.
/// Throws UserError when run if the result is not that of the eigen product.
std::vector<TileBenchmark> tile_benchmarks();

}  // namespace scaling
