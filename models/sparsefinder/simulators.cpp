// Draws of positions, hashes, centroids.
#include "models/sparsefinder/simulators.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/layers/attention/bit_rows.h"
#include "models/layers/attention/patterns/bigbird.h"
#include "models/layers/parts/normals.h"

namespace scaling {
namespace {

/// Streams of a seed.
constexpr std::uint64_t kLongformer = 0x6c6f6e67, kReformer = 0x686173686573,
                        kRouting = 0x726f757465, kRandom = 0x72616e646f6d;

/// Rows of length 1; a row of zeros stays.
Mat unit_rows(const Mat& x) {
  Mat units = x;
  for (std::int64_t i = 0; i < units.rows(); ++i) {
    const float norm = units.row(i).norm();
    if (norm > 0) units.row(i) /= norm;
  }
  return units;
}

/// The first cluster, in their order, that takes each row of x; -1: none does.
std::vector<std::int32_t> taken_by(const Mat& x, const Mat& centroids) {
  const std::int64_t n = x.rows(), clusters = centroids.rows();
  const std::int64_t wanted = std::min(n, n / clusters + 1);
  const Mat products = centroids * unit_rows(x).transpose();
  std::vector<std::int32_t> owner(static_cast<std::size_t>(n), -1);
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  for (std::int64_t c = 0; c < clusters; ++c) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + wanted, order.end(),
                      [&products, c](std::int32_t a, std::int32_t b) {
                        const float pa = products(c, a), pb = products(c, b);
                        return pa > pb || (pa == pb && a < b);
                      });
    for (std::int64_t i = 0; i < wanted; ++i) {
      std::int32_t& own = owner[std::size_t(order[std::size_t(i)])];
      if (own < 0) own = std::int32_t(c);
    }
  }
  return owner;
}

}  // namespace

Prediction sim_longformer(std::int64_t positions, std::int64_t most, std::uint64_t seed) {
  if (most < 3) {
    throw UserError("sim_longformer draws from 2 to " + std::to_string(most - 1) +
                    " global tokens, which is nothing; give 3 or more in place of " +
                    std::to_string(most));
  }
  Rng random(seed, kLongformer);
  const auto tokens = 2 + std::int64_t(random.below(std::uint32_t(most - 2)));
  Prediction found;
  found.graph = window_graph(positions, 1);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto token = std::int64_t(random.below(std::uint32_t(positions)));
    found.graph.add(token, Range{0, positions});
    for (std::int64_t i = 0; i < positions; ++i) found.graph.add(i, token);
  }
  found.operations = double(found.graph.pairs());
  return found;
}

Prediction sim_bigbird(std::int64_t positions, std::int64_t random, std::int64_t head,
                       std::uint64_t seed) {
  if (random < 0) {
    throw UserError("sim_bigbird cannot draw " + std::to_string(random) +
                    " random positions; give 0 or more");
  }
  const BigBird pattern(1, random, RandomBlocks::plan, seed);
  const PatternCall call = {.head = head, .queries = positions, .keys = positions};
  Prediction found;
  found.graph = HeadGraph(positions);
  pattern.for_each_pair(
      call, [&found](std::int64_t query, std::int64_t key) { found.graph.add(query, key); });
  // The first and the last are seen by all in the pattern, too: it has their columns as blocks.
  found.operations = double(found.graph.pairs());
  return found;
}

Prediction sim_reformer(const Mat& q, const Mat& k, std::int64_t buckets, std::uint64_t seed) {
  if (buckets < 2 || buckets % 2 != 0) {
    throw UserError(std::to_string(buckets) +
                    " buckets of sim_reformer are not directions and their opposites; give an "
                    "even number");
  }
  SCALING_CHECK(q.rows() == k.rows() && q.cols() == k.cols());
  Mat both(q.rows(), 2 * q.cols());
  both << q, k;
  Mat directions(both.cols(), buckets / 2);
  draw_normals(seed, kReformer, 0, directions.size(), directions.data());
  const Mat products = both * directions;
  std::vector<std::int32_t> hashes(static_cast<std::size_t>(q.rows()));
  for (std::int64_t i = 0; i < q.rows(); ++i) {
    std::int64_t largest = 0, smallest = 0;
    const float high = products.row(i).maxCoeff(&largest);
    const float low = products.row(i).minCoeff(&smallest);
    hashes[std::size_t(i)] = std::int32_t(high >= -low ? largest : buckets / 2 + smallest);
  }
  return predict_by_buckets(hashes, hashes, 1, buckets);
}

Mat learn_routing_centroids(std::span<const Mat> sequences, std::int64_t clusters, double decay,
                            std::int64_t rounds, std::uint64_t seed) {
  if (clusters < 1) {
    throw UserError(std::to_string(clusters) +
                    " clusters of sim_routing are too few; give 1 or "
                    "more");
  }
  SCALING_CHECK(!sequences.empty());
  const std::int64_t rank = sequences.front().cols();
  Mat centroids(clusters, rank);
  draw_normals(seed, kRouting, 0, centroids.size(), centroids.data());
  centroids = unit_rows(centroids);
  Mat means = centroids, sums;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (const Mat& sequence : sequences) {
      const Mat units = unit_rows(sequence);
      const Mat products = units * centroids.transpose();
      sums.setZero(clusters, rank);
      std::vector<float> counts(static_cast<std::size_t>(clusters), 0.0f);
      for (std::int64_t i = 0; i < units.rows(); ++i) {
        std::int64_t nearest = 0;
        products.row(i).maxCoeff(&nearest);
        sums.row(nearest) += units.row(i);
        ++counts[std::size_t(nearest)];
      }
      for (std::int64_t c = 0; c < clusters; ++c) {
        const float count = counts[std::size_t(c)];
        if (count == 0) continue;
        means.row(c) = float(decay) * means.row(c) + float(1 - decay) / count * sums.row(c);
        if (means.row(c).norm() > 0) centroids.row(c) = means.row(c).normalized();
      }
    }
  }
  return centroids;
}

Prediction sim_routing(const Mat& q, const Mat& k, const Mat& centroids) {
  SCALING_CHECK(q.rows() == k.rows() && q.cols() == centroids.cols());
  return predict_by_buckets(taken_by(q, centroids), taken_by(k, centroids), 1, centroids.rows());
}

std::vector<Prediction> random_graphs(std::int64_t positions, std::span<const float> densities,
                                      std::uint64_t seed) {
  std::vector<Prediction> all(densities.size());
  for (Prediction& one : all) one.graph = HeadGraph(positions);
  std::vector<float> drawn(std::size_t(positions) + 3);
  for (std::int64_t i = 0; i < positions; ++i) {
    for (std::int64_t j = 0; j < positions; j += 4) {
      const auto bits = random_bits(seed, kRandom, std::uint64_t(i * positions + j));
      for (std::size_t lane = 0; lane < 4; ++lane) {
        drawn[std::size_t(j) + lane] = unit_float(bits[lane]);
      }
    }
    for (std::size_t d = 0; d < densities.size(); ++d) {
      mark_at_most(drawn.data(), positions, densities[d], all[d].graph.row(i));
    }
  }
  for (Prediction& one : all) one.operations = double(one.graph.pairs());
  return all;
}

std::vector<Prediction> oracle_graphs(const Mat& scores, bool causal,
                                      std::span<const std::int64_t> counts) {
  const std::int64_t n = scores.rows();
  std::vector<Prediction> all(counts.size());
  for (Prediction& one : all) one.graph = HeadGraph(n);
  const std::int64_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::vector<std::int32_t> order;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t legal = legal_keys(n, i, causal).end;
    order.resize(std::size_t(legal));
    std::iota(order.begin(), order.end(), 0);
    const float* const row = scores.row(i).data();
    std::partial_sort(order.begin(), order.begin() + std::min(most, legal), order.end(),
                      [row](std::int32_t a, std::int32_t b) {
                        return row[a] > row[b] || (row[a] == row[b] && a < b);
                      });
    for (std::size_t c = 0; c < counts.size(); ++c) {
      const std::int64_t own = std::min(counts[c], legal);
      for (std::int64_t t = 0; t < own; ++t) {
        all[c].graph.add(i, std::int64_t(order[std::size_t(t)]));
      }
    }
  }
  for (Prediction& one : all) one.operations = double(one.graph.pairs());
  return all;
}

}  // namespace scaling
