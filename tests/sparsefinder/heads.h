// Heads for tests: drawn queries and keys, and their gold graphs.
#pragma once

#include <cstdint>

#include "kernels/random.h"
#include "models/layers/attention/normaliser.h"
#include "models/layers/parts/normals.h"
#include "models/sparsefinder/gold.h"

namespace scaling {

inline Mat normal_rows(std::int64_t rows, std::int64_t columns, std::uint64_t stream,
                       float spread = 1) {
  Mat x(rows, columns);
  draw_normals(7, stream, 0, x.size(), x.data());
  return spread * x;
}

inline const ThresholdNormaliser& entmax15() {
  static const ThresholdNormaliser normaliser(1.5);
  return normaliser;
}

/// Spread out so far that a query keeps some keys of many.
inline GoldGraph drawn_gold(std::int64_t n, bool causal, std::uint64_t stream) {
  return gold_graph(normal_rows(n, 16, 2 * stream, 1.5f), normal_rows(n, 16, 2 * stream + 1, 1.5f),
                    causal, entmax15());
}

/// Pairs with a probability, each drawn alone.
inline HeadGraph drawn_graph(std::int64_t n, float density, std::uint64_t stream) {
  HeadGraph graph(n);
  Rng random(5, stream);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (random.uniform(0, 1) < density) graph.add(i, j);
    }
  }
  return graph;
}

}  // namespace scaling
