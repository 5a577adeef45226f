// Which points of a sweep the model runs with.
#include <gtest/gtest.h>

#include "experiments/sparsefinder/online.h"

namespace scaling {
namespace {

TEST(OnlinePoints, StrataHoldTheirLowerEnds) {
  EXPECT_EQ(stratum_of(0.49), 0);
  EXPECT_EQ(stratum_of(0.5), 0.5);
  EXPECT_EQ(stratum_of(0.9249), 0.9);
  EXPECT_EQ(stratum_of(1), 0.99);
}

TEST(OnlinePoints, AreTheBestRecallOfEachStratumAndAtTheGoldSparsity) {
  std::vector<SweepPoint> points;
  for (const auto& [sparsity, recall] :
       {std::pair(0.3, 1.0), std::pair(0.91, 0.6), std::pair(0.55, 0.7), std::pair(0.92, 0.8),
        std::pair(0.905, 0.7), std::pair(0.5, 0.9)}) {
    SweepPoint point;
    point.mean.sparsity = sparsity;
    point.mean.recall = recall;
    points.push_back(point);
  }
  using Chosen = std::vector<const SweepPoint*>;
  EXPECT_EQ(online_points(points, 0.95), (Chosen{&points[5], &points[3]})) << "none is as sparse";
  EXPECT_EQ(online_points(points, 0.915), (Chosen{&points[5], &points[3]}))
      << "it is there already";
  points[3].mean.sparsity = 0.91;
  EXPECT_EQ(online_points(points, 0.905), (Chosen{&points[5], &points[3]}));
  points[4].mean.sparsity = 0.915;
  EXPECT_EQ(online_points(points, 0.912), (Chosen{&points[5], &points[3], &points[4]}));
  EXPECT_TRUE(online_points({}, 0.9).empty());
}

}  // namespace
}  // namespace scaling
