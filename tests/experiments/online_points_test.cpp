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
  // One in each stratum, and one beside them at the gold sparsity: the least sparse gives way.
  std::vector<SweepPoint> all;
  for (const double sparsity : kStrata) {
    SweepPoint point;
    point.mean.sparsity = sparsity + 0.004;
    point.mean.recall = 1 - sparsity;
    all.push_back(point);
  }
  all.push_back(all[5]);
  all.back().mean.sparsity = 0.906;
  all.back().mean.recall = 0.09;
  const Chosen chosen = online_points(all, 0.905);
  EXPECT_EQ(chosen.size(), 12u);
  EXPECT_EQ(chosen.front(), &all[1]);
  EXPECT_EQ(chosen.back(), &all.back());
}

}  // namespace
}  // namespace scaling
