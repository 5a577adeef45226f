// Building blocks of step_cost: phases from numbers of weights.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "kernels/cost.h"
#include "kernels/weight.h"

namespace scaling {

/// A phase that reads `matrix` weights of the model's type and `vector` f32 weights.
inline Phase phase_of(std::string name, double matrix, double vector, double flops,
                      WeightType type) {
  return {std::move(name), matrix + vector, matrix * double(bytes_of(type)) + vector * 4, flops};
}

/// `cost`, `times` over, each phase named "prefix_name" (or as it was if prefix is empty).
inline Cost repeated(Cost cost, double times, const std::string& prefix = "") {
  for (Phase& p : cost) {
    if (!prefix.empty()) p.name = prefix + "_" + p.name;
    p.weights *= times;
    p.bytes *= times;
    p.flops *= times;
  }
  return cost;
}

/// Expected number of distinct choices among n, when `tokens` choose uniformly and independently.
inline double expected_union(double n, int tokens) {
  return tokens == 1 ? 1.0 : n * (1 - std::pow(1 - 1 / n, tokens));
}

}  // namespace scaling
