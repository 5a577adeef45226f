// Frontiers against the best of all points, and intervals.
#include "models/sparsefinder/frontier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/random.h"

namespace scaling {
namespace {

std::vector<SparsePoint> drawn_points(std::size_t n, std::uint64_t stream) {
  Rng random(1, stream);
  std::vector<SparsePoint> points(n);
  for (SparsePoint& point : points) {
    // Few values, so that some are equal.
    point.sparsity = random.below(12) / 11.0;
    point.quality = random.below(12) / 11.0;
  }
  return points;
}

TEST(FrontierTest, IsTheBestOfWhatIsAsSparse) {
  for (std::uint64_t stream = 0; stream < 40; ++stream) {
    const auto points = drawn_points(1 + stream % 20, stream);
    const Frontier frontier(points);
    for (double s = 0; s <= 1; s += 0.01) {
      double best = 0;
      for (const SparsePoint& point : points) {
        if (point.sparsity >= s) best = std::max(best, point.quality);
      }
      EXPECT_EQ(frontier.at(s), best) << s;
    }
    for (const SparsePoint& kept : frontier.points()) {
      for (const SparsePoint& point : points) {
        const bool dominates = point.sparsity >= kept.sparsity && point.quality >= kept.quality &&
                               (point.sparsity > kept.sparsity || point.quality > kept.quality);
        EXPECT_FALSE(dominates);
      }
    }
  }
}

TEST(FrontierTest, AreaIsTheMeanOfTheSteps) {
  for (std::uint64_t stream = 0; stream < 40; ++stream) {
    const Frontier frontier(drawn_points(1 + stream % 20, stream));
    constexpr int kSteps = 20000;
    double sum = 0;
    for (int i = 0; i < kSteps; ++i) sum += frontier.at(0.5 + 0.45 * (i + 0.5) / kSteps);
    EXPECT_NEAR(frontier.area(0.5, 0.95), sum / kSteps, 1e-3) << stream;
  }
  EXPECT_EQ(Frontier(std::vector<SparsePoint>{}).area(0.5, 0.95), 0);
  EXPECT_DOUBLE_EQ(Frontier({{1, 0.25}}).area(0.5, 0.95), 0.25);
  EXPECT_DOUBLE_EQ(Frontier({{0.25, 1}}).area(0, 0.5), 0.5);
}

TEST(Resamples, AreMeansOfDrawsWithReplacement) {
  const Mat shares = resampled_shares(400, 50, 3);
  EXPECT_LT((shares.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-5f);
  // A draw leaves out about 1 / e of all.
  const double missing = double((shares.array() == 0).count()) / double(shares.size());
  EXPECT_NEAR(missing, 0.364, 0.02);
  EXPECT_TRUE(resampled_shares(400, 50, 3) == shares);
  EXPECT_FALSE(resampled_shares(400, 50, 4) == shares);
  // Draws of one call differ from each other.
  EXPECT_FALSE(shares.row(0) == shares.row(1));
}

TEST(Intervals, LeaveOutATwentieth) {
  std::vector<double> values;
  for (int i = 1000; i >= 0; --i) values.push_back(i);
  const Interval found = middle_95(values);
  EXPECT_DOUBLE_EQ(found.low, 25);
  EXPECT_DOUBLE_EQ(found.high, 975);
  EXPECT_DOUBLE_EQ(middle_95({3}).low, 3);
}

}  // namespace
}  // namespace scaling
