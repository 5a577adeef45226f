// Reductions over axes by xtensor.
#include "models/sparsefinder/attention_tensor.h"

#include <cstdlib>
#include <exception>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnpy.hpp>
#include <xtensor/xoperation.hpp>
#include <xtensor/xtensor.hpp>

#include "kernels/check.h"

namespace scaling {
namespace {

/// 1 where a pair of positions is wanted.
template <class Wanted>
xt::xtensor<float, 2> pairs_that(std::size_t n, const Wanted& wanted) {
  xt::xtensor<float, 2> pairs = xt::zeros<float>({n, n});
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (wanted(std::int64_t(i), std::int64_t(j))) pairs(i, j) = 1;
    }
  }
  return pairs;
}

}  // namespace

std::vector<float> attention_tensor(std::span<const GoldGraph> gold) {
  SCALING_CHECK(!gold.empty());
  const std::int64_t n = gold.front().positions;
  std::vector<float> values(gold.size() * std::size_t(n * n), 0.0f);
  for (std::size_t head = 0; head < gold.size(); ++head) {
    SCALING_CHECK(gold[head].positions == n);
    float* const p = values.data() + head * std::size_t(n * n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto keys = gold[head].keys_of(i);
      const auto own = gold[head].p_of(i);
      for (std::size_t at = 0; at < keys.size(); ++at) p[i * n + keys[at]] = own[at];
    }
  }
  return values;
}

std::vector<HeadStatistics> head_statistics(std::span<const GoldGraph> gold, std::int64_t layers,
                                            std::int64_t reach) {
  if (layers < 1 || gold.size() % std::size_t(layers) != 0) {
    throw UserError(std::to_string(gold.size()) + " heads do not divide into " +
                    std::to_string(layers) + " layers of as many each");
  }
  const std::vector<float> values = attention_tensor(gold);
  const auto n = std::size_t(gold.front().positions);
  const std::size_t heads = gold.size() / std::size_t(layers);
  const std::vector<std::size_t> shape = {std::size_t(layers), heads, n, n};
  const xt::xtensor<float, 4> p = xt::adapt(values, shape);
  const auto same = pairs_that(n, [](std::int64_t i, std::int64_t j) { return i == j; });
  const auto near =
      pairs_that(n, [reach](std::int64_t i, std::int64_t j) { return std::abs(i - j) <= reach; });
  const auto first = pairs_that(n, [](std::int64_t, std::int64_t j) { return j == 0; });
  const xt::xtensor<float, 4> support = xt::where(p > 0.0f, 1.0f, 0.0f);
  const xt::xtensor<double, 2> supports = xt::sum<double>(support, {2, 3});
  const xt::xtensor<double, 2> diagonals = xt::sum<double>(p * same, {2, 3});
  const xt::xtensor<double, 2> locals = xt::sum<double>(p * near, {2, 3});
  const xt::xtensor<double, 2> firsts = xt::sum<double>(p * first, {2, 3});
  std::vector<HeadStatistics> all;
  for (std::size_t layer = 0; layer < std::size_t(layers); ++layer) {
    for (std::size_t head = 0; head < heads; ++head) {
      const double queries = double(n);
      all.push_back({supports(layer, head) / queries, diagonals(layer, head) / queries,
                     locals(layer, head) / queries, firsts(layer, head) / queries});
    }
  }
  return all;
}

void write_npy(const std::string& path, const std::vector<std::size_t>& shape,
               const std::vector<float>& values) {
  std::size_t size = 1;
  for (const std::size_t axis : shape) size *= axis;
  SCALING_CHECK(size == values.size());
  try {
    xt::dump_npy(path, xt::adapt(values, shape));
  } catch (const std::exception& error) {
    throw UserError("'" + path + "' cannot be written: " + error.what() +
                    "; name a folder that can be written and has room");
  }
}

std::vector<float> read_npy(const std::string& path, std::vector<std::size_t>& shape) {
  try {
    const xt::xarray<float> values = xt::load_npy<float>(path);
    shape.assign(values.shape().begin(), values.shape().end());
    return {values.begin(), values.end()};
  } catch (const std::exception& error) {
    throw UserError("'" + path + "' cannot be read as an array of floats: " + error.what());
  }
}

}  // namespace scaling
