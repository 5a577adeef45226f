// Distances a row of keys at a time; buckets as rows of bits that queries unite.
#include "models/sparsefinder/predictors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/layers/attention/bit_rows.h"

namespace scaling {
namespace {

constexpr std::uint64_t kCentroids = 0x6b6d65616e73;  // stream of k-means++'s draws

/// to[j] = squared distance of `row` of x from column j of `columns`.
void squared_distances(const Mat& x, std::int64_t row, const Mat& columns, float* to) {
  std::fill(to, to + columns.cols(), 0.0f);
  for (std::int64_t c = 0; c < columns.rows(); ++c) {
    const float own = x(row, c);
    const float* const others = columns.row(c).data();
    for (std::int64_t j = 0; j < columns.cols(); ++j) {
      const float apart = own - others[j];
      to[j] += apart * apart;
    }
  }
}

void require_room(const char* what, std::int64_t wanted, std::int64_t there, const char* of) {
  if (wanted >= 1 && wanted <= there) return;
  throw UserError(std::to_string(wanted) + " " + what + " do not fit " + std::to_string(there) +
                  " " + of + "; give from 1 to as many as those");
}

}  // namespace

std::vector<Prediction> predict_by_distance(const Mat& q, const Mat& k,
                                            std::span<const float> thresholds) {
  SCALING_CHECK(q.rows() == k.rows() && q.cols() == k.cols());
  const std::int64_t n = q.rows();
  std::vector<Prediction> all(thresholds.size());
  for (Prediction& one : all) one.graph = HeadGraph(n);
  const Mat columns = k.transpose();
  std::vector<float> distances(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    squared_distances(q, i, columns, distances.data());
    for (std::size_t t = 0; t < thresholds.size(); ++t) {
      mark_at_most(distances.data(), n, thresholds[t], all[t].graph.row(i));
    }
  }
  for (Prediction& one : all) one.operations = double(one.graph.pairs());
  return all;
}

std::vector<std::int32_t> rank_bins(const Mat& x, std::int64_t column, std::int64_t bins) {
  const std::int64_t n = x.rows();
  require_room("bins", bins, n, "positions");
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&x, column](std::int32_t a, std::int32_t b) {
    return x(a, column) < x(b, column);
  });
  const std::int64_t size = (n + bins - 1) / bins;
  std::vector<std::int32_t> found(order.size());
  for (std::int64_t rank = 0; rank < n; ++rank) {
    found[std::size_t(order[std::size_t(rank)])] = std::int32_t(rank / size);
  }
  return found;
}

Prediction predict_by_quantization(const Mat& q, const Mat& k, std::int64_t bins) {
  SCALING_CHECK(q.rows() == k.rows() && q.cols() == k.cols());
  const std::int64_t n = q.rows(), rank = q.cols();
  std::vector<std::int32_t> queries(std::size_t(n * rank)), keys(queries.size());
  for (std::int64_t c = 0; c < rank; ++c) {
    const std::vector<std::int32_t> of_q = rank_bins(q, c, bins), of_k = rank_bins(k, c, bins);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = std::size_t(i * rank + c);
      queries[at] = std::int32_t(c * bins) + of_q[std::size_t(i)];
      keys[at] = std::int32_t(c * bins) + of_k[std::size_t(i)];
    }
  }
  Prediction found = predict_by_buckets(queries, keys, rank, rank * bins);
  const std::int64_t size = (n + bins - 1) / bins;  // the last one's with its padding
  found.operations = double(rank * bins) * double(size) * double(size);
  return found;
}

Mat learn_centroids(const Mat& points, std::int64_t clusters, std::int64_t rounds,
                    std::uint64_t seed) {
  require_room("clusters", clusters, points.rows(), "points");
  const std::int64_t n = points.rows();
  Rng random(seed, kCentroids);
  Mat centroids(clusters, points.cols());
  centroids.row(0) = points.row(std::int64_t(random.below(std::uint32_t(n))));
  // k-means++: the next is a point drawn by its squared distance from the nearest so far.
  std::vector<float> nearest(std::size_t(n), std::numeric_limits<float>::infinity());
  for (std::int64_t c = 1; c < clusters; ++c) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      float& own = nearest[std::size_t(i)];
      own = std::min(own, (points.row(i) - centroids.row(c - 1)).squaredNorm());
      sum += double(own);
    }
    double left = sum * double(random.uniform(0, 1));
    std::int64_t chosen = 0;
    while (chosen + 1 < n && left >= double(nearest[std::size_t(chosen)])) {
      left -= double(nearest[std::size_t(chosen++)]);
    }
    centroids.row(c) = points.row(chosen);
  }
  std::vector<std::int32_t> before;
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::vector<std::int32_t> assigned = nearest_centroids(points, centroids, 1);
    if (assigned == before) break;
    Eigen::MatrixXd sums = Eigen::MatrixXd::Zero(clusters, points.cols());
    std::vector<double> counts(std::size_t(clusters), 0.0);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t c = assigned[std::size_t(i)];
      sums.row(c) += points.row(i).cast<double>();
      ++counts[std::size_t(c)];
    }
    for (std::int64_t c = 0; c < clusters; ++c) {
      if (counts[std::size_t(c)] == 0) continue;
      centroids.row(c) = (sums.row(c) / counts[std::size_t(c)]).cast<float>();
    }
    before = std::move(assigned);
  }
  return centroids;
}

std::vector<std::int32_t> nearest_centroids(const Mat& x, const Mat& centroids,
                                            std::int64_t nearest) {
  const std::int64_t clusters = centroids.rows();
  require_room("nearest centroids", nearest, clusters, "clusters");
  const Mat columns = centroids.transpose();
  std::vector<float> distances(static_cast<std::size_t>(clusters));
  std::vector<std::int32_t> found(std::size_t(x.rows() * nearest));
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    squared_distances(x, i, columns, distances.data());
    for (std::int64_t order = 0; order < nearest; ++order) {
      const auto at = std::min_element(distances.begin(), distances.end());
      found[std::size_t(i * nearest + order)] = std::int32_t(at - distances.begin());
      *at = std::numeric_limits<float>::infinity();
    }
  }
  return found;
}

Prediction predict_by_clusters(const Mat& q, const Mat& k, const Mat& centroids,
                               std::int64_t nearest) {
  SCALING_CHECK(q.rows() == k.rows());
  return predict_by_buckets(nearest_centroids(q, centroids, nearest),
                            nearest_centroids(k, centroids, nearest), nearest, centroids.rows());
}

Prediction predict_by_buckets(std::span<const std::int32_t> queries,
                              std::span<const std::int32_t> keys, std::int64_t each,
                              std::int64_t buckets) {
  SCALING_CHECK(queries.size() == keys.size() && each > 0);
  const std::int64_t n = std::int64_t(queries.size()) / each;
  Prediction found;
  found.graph = HeadGraph(n);
  const std::int64_t words = found.graph.words();
  std::vector<std::uint64_t> members(std::size_t(buckets * words), 0);  // keys of each bucket
  std::vector<double> sizes(std::size_t(buckets), 0.0);
  for (std::int64_t i = 0; i < n * each; ++i) {
    const std::int32_t bucket = keys[std::size_t(i)];
    if (bucket < 0) continue;
    const std::int64_t key = i / each;
    members[std::size_t(bucket * words + key / 64)] |= std::uint64_t(1) << (key % 64);
    ++sizes[std::size_t(bucket)];
  }
  for (std::int64_t i = 0; i < n * each; ++i) {
    const std::int32_t bucket = queries[std::size_t(i)];
    if (bucket < 0) continue;
    const std::uint64_t* const of_bucket = members.data() + bucket * words;
    std::uint64_t* const row = found.graph.row(i / each);
    for (std::int64_t word = 0; word < words; ++word) row[word] |= of_bucket[word];
    found.operations += sizes[std::size_t(bucket)];
  }
  found.buckets = bucket_sizes(sizes);
  return found;
}

BucketSizes bucket_sizes(std::span<const double> sizes) {
  const double keys = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  if (keys == 0) return {};
  const auto buckets = double(sizes.size());
  if (buckets == 1) return {1, 1};
  double entropy = 0;
  for (const double size : sizes) {
    if (size > 0) entropy -= size / keys * std::log(size / keys);
  }
  return {entropy / std::log(buckets), *std::ranges::max_element(sizes) * buckets / keys};
}

}  // namespace scaling
