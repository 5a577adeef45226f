// Predicted graphs against their definitions, pair by pair, and in the limits where they are all or
// nothing.
#include "models/sparsefinder/predictors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kernels/check.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

constexpr std::int64_t kN = 70;

HeadGraph everything(std::int64_t n) { return legal_graph(n, false); }

TEST(DistancePredictor, IsPairsAtMostSoFarApart) {
  const Mat q = normal_rows(kN, 4, 1), k = normal_rows(kN, 4, 2);
  const std::vector<float> thresholds = {-1, 0,  0.25f,
                                         4,  12, std::numeric_limits<float>::infinity()};
  const auto found = predict_by_distance(q, k, thresholds);
  for (std::size_t t = 0; t < thresholds.size(); ++t) {
    for (std::int64_t i = 0; i < kN; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        const float apart = (q.row(i) - k.row(j)).squaredNorm();
        if (std::abs(apart - thresholds[t]) < 1e-4f) continue;
        ASSERT_EQ(found[t].graph.has(i, j), apart <= thresholds[t]) << t;
      }
    }
    EXPECT_EQ(found[t].operations, double(found[t].graph.pairs()));
  }
  EXPECT_EQ(found.front().graph, HeadGraph(kN));
  EXPECT_EQ(found.back().graph, everything(kN));
  EXPECT_EQ(predict_by_distance(q, q, std::vector<float>{0}).front().graph, window_graph(kN, 1));
}

TEST(QuantizationPredictor, SharesABinOfRanks) {
  const Mat q = normal_rows(kN, 3, 3), k = normal_rows(kN, 3, 4);
  for (const std::int64_t bins : {1, 2, 7, 20, 70}) {
    const std::int64_t size = (kN + bins - 1) / bins;
    const auto bin = [size](const Mat& x, std::int64_t row, std::int64_t column) {
      std::int64_t before = 0;
      for (std::int64_t i = 0; i < kN; ++i) before += x(i, column) < x(row, column);
      return before / size;
    };
    const Prediction found = predict_by_quantization(q, k, bins);
    for (std::int64_t i = 0; i < kN; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        bool shares = false;
        for (std::int64_t c = 0; c < 3; ++c) shares = shares || bin(q, i, c) == bin(k, j, c);
        ASSERT_EQ(found.graph.has(i, j), shares) << bins;
      }
    }
    EXPECT_EQ(found.operations, double(3 * bins * size * size));
  }
  EXPECT_EQ(predict_by_quantization(q, k, 1).graph, everything(kN));
  EXPECT_THROW(predict_by_quantization(q, k, 0), UserError);
  EXPECT_THROW(predict_by_quantization(q, k, kN + 1), UserError);
  // Of equal values the earlier comes first.
  const Mat equal = Mat::Zero(4, 1);
  EXPECT_EQ(rank_bins(equal, 0, 2), (std::vector<std::int32_t>{0, 0, 1, 1}));
}

/// The share of pairs that a table of independent coordinates promises.
TEST(QuantizationPredictor, IsAsSparseAsIndependentCoordinates) {
  const Mat q = normal_rows(480, 4, 5), k = normal_rows(480, 4, 6);
  for (const std::int64_t bins : {2, 4, 8, 20}) {
    const double density =
        double(predict_by_quantization(q, k, bins).graph.pairs()) / (480 * 480.0);
    EXPECT_NEAR(density, 1 - std::pow(1 - 1.0 / double(bins), 4), 0.01) << bins;
  }
}

TEST(ClusterPredictor, SharesOneOfTheNearestCentroids) {
  const Mat q = normal_rows(kN, 4, 7), k = normal_rows(kN, 4, 8), centroids = normal_rows(6, 4, 9);
  const auto nearest = [&](const Mat& x, std::int64_t row, std::int64_t count) {
    std::vector<std::pair<float, std::int64_t>> order;
    for (std::int64_t c = 0; c < 6; ++c) {
      order.emplace_back((x.row(row) - centroids.row(c)).squaredNorm(), c);
    }
    std::sort(order.begin(), order.end());
    std::set<std::int64_t> found;
    for (std::int64_t c = 0; c < count; ++c) found.insert(order[std::size_t(c)].second);
    return found;
  };
  for (const std::int64_t count : {1, 2, 6}) {
    const HeadGraph graph = predict_by_clusters(q, k, centroids, count).graph;
    for (std::int64_t i = 0; i < kN; ++i) {
      for (std::int64_t j = 0; j < kN; ++j) {
        bool shares = false;
        for (const std::int64_t c : nearest(q, i, count)) {
          shares = shares || nearest(k, j, count).count(c) > 0;
        }
        ASSERT_EQ(graph.has(i, j), shares) << count;
      }
    }
  }
  EXPECT_EQ(predict_by_clusters(q, k, centroids, 6).graph, everything(kN));
  EXPECT_EQ(predict_by_clusters(q, k, centroids.topRows(1), 1).graph, everything(kN));
  EXPECT_THROW(predict_by_clusters(q, k, centroids, 7), UserError);
}

TEST(ClusterPredictor, OperationsCountEveryBucket) {
  // Buckets {0: 2 queries, 1 key}, {1: 1 query, 2 keys}; the last query has none.
  const std::vector<std::int32_t> queries = {0, 0, 1, -1}, keys = {0, 1, 1, -1};
  const Prediction found = predict_by_buckets(queries, keys, 1, 2);
  EXPECT_EQ(found.operations, 2 * 1 + 1 * 2);
  EXPECT_EQ(found.graph.pairs(), 4);
  EXPECT_EQ(found.graph.pairs(3, {0, 4}), 0);
}

TEST(BucketSizesTest, SayHowEvenTheyAre) {
  const std::vector<double> even = {3, 3, 3, 3}, uneven = {6, 3, 3, 0}, one = {5, 0}, none = {0, 0};
  EXPECT_NEAR(bucket_sizes(even).entropy, 1, 1e-12);
  EXPECT_EQ(bucket_sizes(even).largest, 1);
  EXPECT_NEAR(bucket_sizes(uneven).entropy, 0.75, 1e-12);  // 1.5 of 2 bits
  EXPECT_EQ(bucket_sizes(uneven).largest, 2);
  EXPECT_EQ(bucket_sizes(one).entropy, 0);
  EXPECT_EQ(bucket_sizes(one).largest, 2);
  EXPECT_EQ(bucket_sizes(none).entropy, 0);
  EXPECT_EQ(bucket_sizes(none).largest, 0);
  EXPECT_EQ(bucket_sizes(std::vector<double>{4}).entropy, 1);
}

TEST(BucketSizesTest, AreOfTheKeysOfPredictions) {
  // Keys 0 and 2 in bucket 0, key 1 in bucket 1, key 3 in none.
  const std::vector<std::int32_t> queries = {0, 0, 1, 1}, keys = {0, 1, 0, -1};
  const Prediction found = predict_by_buckets(queries, keys, 1, 2);
  EXPECT_NEAR(found.buckets.largest, 4.0 / 3, 1e-12);
  EXPECT_NEAR(found.buckets.entropy, 0.9182958340544896, 1e-12);  // of thirds, in bits
  const Mat x = Mat::Random(12, 2);
  EXPECT_NEAR(predict_by_quantization(x, x, 4).buckets.entropy, 1, 1e-12);
}

TEST(Centroids, FindWhatIsApart) {
  // Three heaps, far from one another.
  Mat points = normal_rows(90, 2, 10, 0.1f);
  for (std::int64_t i = 0; i < 90; ++i) points(i, 0) += float(10 * (i % 3));
  const Mat centroids = learn_centroids(points, 3, 20, 1);
  const auto assigned = nearest_centroids(points, centroids, 1);
  std::set<std::int32_t> of_heaps;
  for (std::int64_t i = 0; i < 90; ++i) {
    EXPECT_EQ(assigned[std::size_t(i)], assigned[std::size_t(i % 3)]) << i;
    of_heaps.insert(assigned[std::size_t(i)]);
  }
  EXPECT_EQ(of_heaps.size(), 3u);
  EXPECT_TRUE(learn_centroids(points, 3, 20, 1) == centroids);
  EXPECT_EQ(learn_centroids(points, 90, 2, 1).rows(), 90);
  EXPECT_THROW(learn_centroids(points, 91, 2, 1), UserError);
  EXPECT_THROW(learn_centroids(points, 0, 2, 1), UserError);
}

}  // namespace
}  // namespace scaling
