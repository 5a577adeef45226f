// Learnt projections: draws, losses against their slopes, what is learnt, and controls.
#include "models/sparsefinder/projection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "kernels/check.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

TEST(Triples, AreLegalAndDrawnWithoutReplacement) {
  for (const bool causal : {false, true}) {
    const GoldGraph gold = drawn_gold(70, causal, 1);
    const HeadGraph graph = gold.graph();
    const auto triples = draw_triples(gold, 3, 4);
    std::map<std::int32_t, std::set<std::int32_t>> positives, negatives;
    std::int32_t last = -1;
    for (const Triple& one : triples) {
      EXPECT_GE(one.query, last);
      last = one.query;
      EXPECT_TRUE(graph.has(one.query, one.positive));
      EXPECT_FALSE(graph.has(one.query, one.negative));
      EXPECT_TRUE(positives[one.query].insert(one.positive).second);
      EXPECT_TRUE(negatives[one.query].insert(one.negative).second);
      EXPECT_LT(one.negative, legal_keys(70, one.query, causal).end);
    }
    for (std::int32_t i = 0; i < 70; ++i) {
      const std::size_t own = gold.keys_of(i).size();
      const auto legal = std::size_t(legal_keys(70, i, causal).end);
      EXPECT_EQ(positives[i].size(), std::min(own, legal - own)) << i;
    }
    const auto again = draw_triples(gold, 3, 4), other = draw_triples(gold, 3, 5);
    ASSERT_EQ(again.size(), triples.size());
    ASSERT_EQ(other.size(), triples.size());
    std::size_t same = 0, equal = 0;
    for (std::size_t t = 0; t < triples.size(); ++t) {
      same += again[t].negative == triples[t].negative;
      equal += other[t].negative == triples[t].negative;
    }
    EXPECT_EQ(same, triples.size());
    EXPECT_LT(equal, triples.size());
  }
}

class ProjectionLossTest : public testing::TestWithParam<ProjectionLoss> {};

TEST_P(ProjectionLossTest, GradientsAreSlopes) {
  const GoldGraph gold = drawn_gold(20, true, 2);
  const auto triples = draw_triples(gold, 1, 1);
  ProjectedRows q = normal_rows(20, 3, 21).cast<double>();
  ProjectedRows k = normal_rows(20, 3, 22).cast<double>();
  ProjectedRows dq, dk;
  const double margin = 0.7;
  const auto loss = [&] {
    return projection_loss(GetParam(), margin, triples, q, k, nullptr, nullptr);
  };
  EXPECT_EQ(projection_loss(GetParam(), margin, triples, q, k, &dq, &dk), loss());
  EXPECT_GT(loss(), 0);
  constexpr double kStep = 1e-6;
  for (ProjectedRows* x : {&q, &k}) {
    const ProjectedRows& slopes = x == &q ? dq : dk;
    for (std::int64_t i = 0; i < x->size(); ++i) {
      double& value = x->data()[i];
      const double before = value;
      value = before + kStep;
      const double above = loss();
      value = before - kStep;
      const double below = loss();
      value = before;
      EXPECT_NEAR((above - below) / (2 * kStep), slopes.data()[i], 1e-6) << i;
    }
  }
}

TEST_P(ProjectionLossTest, IsTheSumOfItsHinges) {
  ProjectedRows q(2, 1), k(3, 1);
  q << 0, 1;
  k << 1, 2, 3;
  // Squared distances of the triples: 1 - 4, 9 - 4, then 1 - 0.
  const std::vector<Triple> triples = {{0, 0, 1}, {0, 2, 1}, {1, 1, 0}};
  const double found = projection_loss(GetParam(), 1, triples, q, k, nullptr, nullptr);
  const double expected =
      GetParam() == ProjectionLoss::pairwise ? (0 + 6 + 2) / 3.0 : (1 - 3 + 5 + 2) / 2.0;
  EXPECT_DOUBLE_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Both, ProjectionLossTest,
                         testing::Values(ProjectionLoss::pairwise, ProjectionLoss::per_query),
                         [](const auto& loss) {
                           return std::string(names_of(loss.param)[std::size_t(loss.param)]);
                         });

/// Heads whose scores live in a few of their dimensions.
struct Sequences {
  explicit Sequences(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Mat shared = Mat::Zero(48, 16);
      shared.leftCols(3) = normal_rows(48, 3, std::uint64_t(100 + i), 3);
      q.push_back(shared + normal_rows(48, 16, std::uint64_t(200 + i), 0.3f));
      k.push_back(shared + normal_rows(48, 16, std::uint64_t(300 + i), 0.3f));
      gold.push_back(gold_graph(q.back(), k.back(), false, entmax15()));
    }
    for (std::size_t i = 0; i < q.size(); ++i) heads.push_back({q[i], k[i], gold[i]});
  }
  std::vector<Mat> q, k;
  std::vector<GoldGraph> gold;
  std::vector<HeadSequence> heads;
};

TEST(LearnProjection, LossFallsAndSeedsAreAllThatCounts) {
  const Sequences some(8);
  for (const ProjectionLoss loss : {ProjectionLoss::pairwise, ProjectionLoss::per_query}) {
    const ProjectionSettings settings = {.loss = loss, .batch = 2, .epochs = 8};
    const LearntProjection learnt = learn_projection(some.heads, settings);
    ASSERT_EQ(learnt.losses.size(), 8u);
    EXPECT_LT(learnt.losses.back(), 0.8 * learnt.losses.front());
    EXPECT_TRUE(learn_projection(some.heads, settings).map == learnt.map);
    ProjectionSettings other = settings;
    other.seed = 2;
    EXPECT_FALSE(learn_projection(some.heads, other).map == learnt.map);
  }
}

TEST(LearnProjection, WhatCannotBeLearntIsRefused) {
  const Sequences some(1);
  EXPECT_THROW(learn_projection(some.heads, {.rank = 17}), UserError);
  EXPECT_THROW(learn_projection(some.heads, {.rank = 0}), UserError);
  EXPECT_THROW(learn_projection(some.heads, {.margin = 0}), UserError);
  EXPECT_THROW(learn_projection(some.heads, {.learning_rate = -1}), UserError);
  EXPECT_THROW(learn_projection(some.heads, {.batch = 0}), UserError);
  EXPECT_THROW(learn_projection(some.heads, {.epochs = 0}), UserError);
}

TEST(Controls, PrincipalAxesHaveTheVarianceAndRandomMapsKeepDistances) {
  const Sequences some(6);
  const ProjectionMap pca = pca_projection(some.heads, 3);
  EXPECT_LT((pca.transpose() * pca - Eigen::MatrixXd::Identity(3, 3)).cwiseAbs().maxCoeff(), 1e-9);
  // Nearly all of the spread is in the first three dimensions.
  EXPECT_LT(pca.bottomRows(13).norm(), 0.2);
  const ProjectionMap random = random_projection(64, 16, 5);
  EXPECT_NEAR(random.squaredNorm() / 64, 1, 0.15);
  EXPECT_TRUE(random_projection(64, 16, 5) == random);
  EXPECT_FALSE(random_projection(64, 16, 6) == random);
  const Mat x = normal_rows(5, 64, 1);
  EXPECT_LT((projected(x, random).cast<double>() - x.cast<double>() * random).norm(), 1e-4);
}

}  // namespace
}  // namespace scaling
