// Values that are unit vectors, and sums over queries and keys.
#include "experiments/attention/weights.h"

#include <algorithm>
#include <string>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xoperation.hpp>

#include "experiments/instruments/held_attention.h"
#include "kernels/check.h"
#include "models/initialize.h"

namespace scaling {
namespace {

const Initializer kInputs = {Initializer::Kind::uniform, 1.7320508f};

Mat drawn(const ModelConfig& model, const char* name, std::int64_t layer, std::int64_t length) {
  Mat m(length, model.d_model);
  draw_values(model.seed, std::string(name) + "." + std::to_string(layer), kInputs, 0, m.size(),
              m.data());
  return m;
}

}  // namespace

Weights attention_weights(const ModelConfig& model, bool causal, std::int64_t length) {
  const HeldAttention attention(model);
  const std::int64_t heads = model.n_heads, d = model.d_head();
  const auto n = std::size_t(length);
  Weights weights = xt::zeros<float>({std::size_t(model.decoder_layers), std::size_t(heads), n, n});
  for (std::int64_t layer = 0; layer < model.decoder_layers; ++layer) {
    const Mat q = drawn(model, "queries", layer, length), k = drawn(model, "keys", layer, length);
    for (std::int64_t first = 0; first < length; first += d) {
      const std::int64_t keys = std::min(d, length - first);
      Mat v = Mat::Zero(length, model.d_model);
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t i = 0; i < keys; ++i) v(first + i, head * d + i) = 1;
      }
      const Mat o = attention->forward(q, k, v, causal);
      for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t query = 0; query < length; ++query) {
          for (std::int64_t i = 0; i < keys; ++i) {
            weights(std::size_t(layer), std::size_t(head), std::size_t(query),
                    std::size_t(first + i)) = o(query, head * d + i);
          }
        }
      }
    }
  }
  return weights;
}

WeightStatistics statistics_of(const Weights& weights, bool causal) {
  SCALING_CHECK(weights.shape(2) == weights.shape(3) && weights.shape(2) > 0);
  const std::size_t n = weights.shape(2);
  const double queries = double(n);
  const double allowed = causal ? queries * (queries + 1) / 2 : queries * queries;
  xt::xtensor<float, 2> apart = xt::zeros<float>({n, n});
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) apart(i, j) = float(i > j ? i - j : j - i);
  }
  const xt::xtensor<float, 4> meet = xt::cast<float>(weights > 0.0f);
  // The logarithm of what is zero is of no weight.
  const xt::xtensor<float, 4> logs = xt::log(weights + (1.0f - meet));
  const xt::xtensor<double, 2> pairs = xt::sum<double>(meet, {2, 3});
  const xt::xtensor<double, 2> nats = xt::sum<double>(weights * logs, {2, 3});
  const xt::xtensor<double, 2> way = xt::sum<double>(weights * apart, {2, 3});
  return {pairs / allowed, -nats / queries, way / queries};
}

xt::xtensor<std::uint8_t, 4> graph_of(const Weights& weights) {
  return xt::cast<std::uint8_t>(weights > 0.0f);
}

}  // namespace scaling
