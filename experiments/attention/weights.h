// What a query gives to a key, over layers, heads, queries and keys, and statistics of it.
#pragma once

#include <cstdint>
#include <xtensor/xtensor.hpp>

#include "models/config.h"

namespace scaling {

/// (layers, heads, queries, keys).
using Weights = xt::xtensor<float, 4>;

/// Of one sequence in evaluation, asked of the attention's forward alone, whatever it is made of: a
/// head's outputs are linear in its values, so values that are unit vectors, as many keys at a time
/// as a head has components, come back as the weights of these keys. Each of the config's
/// decoder_layers has queries and keys of its own, components U(-sqrt 3, sqrt 3).
Weights attention_weights(const ModelConfig& model, bool causal, std::int64_t length);

/// Of every layer and head: (layers, heads).
struct WeightStatistics {
  xt::xtensor<double, 2> density;   ///< pairs with a weight, of those that the mask allows
  xt::xtensor<double, 2> entropy;   ///< nats, mean over queries
  xt::xtensor<double, 2> distance;  ///< of a key from its query, mean by weight, over queries
};

/// No weight is negative.
WeightStatistics statistics_of(const Weights& weights, bool causal);

/// Which weights are not zero, 1 or 0.
xt::xtensor<std::uint8_t, 4> graph_of(const Weights& weights);

}  // namespace scaling
