// Emulated attentions and controls: what the authors' rules promise of every draw.
#include "models/sparsefinder/simulators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/check.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

constexpr std::int64_t kN = 100;

/// Tokens that see all and are seen by all.
std::int64_t globals_of(const HeadGraph& graph) {
  std::int64_t globals = 0;
  for (std::int64_t i = 0; i < graph.positions(); ++i) {
    bool is_global = graph.pairs(i, {0, graph.positions()}) == graph.positions();
    for (std::int64_t j = 0; j < graph.positions(); ++j) is_global = is_global && graph.has(j, i);
    globals += is_global;
  }
  return globals;
}

TEST(SimLongformer, HasItselfAndAFewGlobals) {
  std::set<std::int64_t> numbers;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const HeadGraph graph = sim_longformer(kN, 6, seed).graph;
    const std::int64_t globals = globals_of(graph);
    EXPECT_GE(globals, 1);  // two may fall on one
    EXPECT_LE(globals, 5);
    numbers.insert(globals);
    // Nothing but globals and the diagonal.
    EXPECT_EQ(graph.pairs(), kN * kN - (kN - globals) * (kN - globals) + (kN - globals));
    EXPECT_EQ(sim_longformer(kN, 6, seed).graph, graph);
  }
  EXPECT_GE(numbers.size(), 3u);
  EXPECT_THROW(sim_longformer(kN, 2, 1), UserError);
}

TEST(SimBigBird, HasNeighboursEndsAndPlannedTokens) {
  for (const std::int64_t random : {0, 2, 8}) {
    const HeadGraph graph = sim_bigbird(kN, random, 1, 9).graph;
    HeadGraph least = window_graph(kN, 3);
    add_globals(least, GlobalTokens::first_and_last);
    for (std::int64_t i = 1; i + 1 < kN; ++i) {
      std::int64_t more = 0;
      for (std::int64_t j = 0; j < kN; ++j) {
        EXPECT_TRUE(graph.has(i, j) || !least.has(i, j));
        if (!graph.has(i, j) || least.has(i, j)) continue;
        ++more;
        EXPECT_LT(j, 2 * random + 5);
      }
      EXPECT_EQ(more, random) << i;
    }
    EXPECT_GE(globals_of(graph), 2);
  }
  EXPECT_THROW(sim_bigbird(kN, -1, 0, 1), UserError);
}

TEST(SimReformer, PutsAPositionsQueryAndKeyTogether) {
  const Mat q = normal_rows(kN, 4, 1), k = normal_rows(kN, 4, 2);
  for (const std::int64_t buckets : {2, 8, 20}) {
    const HeadGraph graph = sim_reformer(q, k, buckets, 3).graph;
    for (std::int64_t i = 0; i < kN; ++i) {
      EXPECT_TRUE(graph.has(i, i));
      for (std::int64_t j = 0; j < kN; ++j) {
        ASSERT_EQ(graph.has(i, j), graph.has(j, i));
        // What shares a bucket shares its pairs.
        if (graph.has(i, j)) {
          ASSERT_TRUE(std::equal(graph.row(i), graph.row(i) + graph.words(), graph.row(j)));
        }
      }
    }
    EXPECT_LT(graph.pairs(), kN * kN);
    // Opposite vectors have opposite buckets.
    EXPECT_FALSE(std::equal(graph.row(0), graph.row(0) + graph.words(),
                            sim_reformer(-q, -k, buckets, 4).graph.row(0)));
  }
  EXPECT_THROW(sim_reformer(q, k, 3, 1), UserError);
  EXPECT_THROW(sim_reformer(q, k, 0, 1), UserError);
}

TEST(SimRouting, TakesTheNearestAndKeepsThemOnce) {
  const Mat q = normal_rows(kN, 4, 5), k = normal_rows(kN, 4, 6);
  std::vector<Mat> training;
  for (std::uint64_t i = 0; i < 4; ++i) training.push_back(normal_rows(kN, 4, 20 + i));
  for (const std::int64_t clusters : {1, 4, 10}) {
    const Mat centroids = learn_routing_centroids(training, clusters, 0.9, 3, 8);
    EXPECT_LT((centroids.rowwise().norm().array() - 1).abs().maxCoeff(), 1e-5f);
    const HeadGraph graph = sim_routing(q, k, centroids).graph;
    const std::int64_t most = std::min(kN, kN / clusters + 1);
    std::int64_t without = 0;
    for (std::int64_t i = 0; i < kN; ++i) {
      EXPECT_LE(graph.pairs(i, {0, kN}), most);
      without += graph.pairs(i, {0, kN}) == 0;
    }
    if (clusters == 1) {
      EXPECT_EQ(graph.pairs(), kN * kN);
    }
    EXPECT_LT(without, kN / 2);
  }
  EXPECT_THROW(learn_routing_centroids(training, 0, 0.9, 1, 1), UserError);
}

TEST(RandomGraphs, AreNestedAndAsDenseAsTheySay) {
  const std::vector<float> densities = {0.1f, 0.4f, 1};
  const auto graphs = random_graphs(401, densities, 3);
  for (std::size_t d = 0; d < densities.size(); ++d) {
    EXPECT_NEAR(double(graphs[d].graph.pairs()) / (401 * 401.0), double(densities[d]), 0.01);
    if (d == 0) continue;
    HeadGraph common = graphs[d].graph;
    common &= graphs[d - 1].graph;
    EXPECT_EQ(common, graphs[d - 1].graph);
  }
}

/// No other graph with as many keys for each query has more of the mass.
TEST(OracleGraphs, TakeTheLargestScores) {
  const Mat q = normal_rows(kN, 8, 7, 1.5f), k = normal_rows(kN, 8, 8, 1.5f);
  Mat scores;
  head_scores(q, k, scores);
  for (const bool causal : {false, true}) {
    const std::vector<std::int64_t> counts = {1, 5, 200};
    const auto graphs = oracle_graphs(scores, causal, counts);
    for (std::size_t c = 0; c < counts.size(); ++c) {
      for (std::int64_t i = 0; i < kN; ++i) {
        const std::int64_t legal = legal_keys(kN, i, causal).end;
        ASSERT_EQ(graphs[c].graph.pairs(i, {0, kN}), std::min(counts[c], legal));
        ASSERT_EQ(graphs[c].graph.pairs(i, {legal, kN}), 0);
        float least_in = 1e9f, most_out = -1e9f;
        for (std::int64_t j = 0; j < legal; ++j) {
          float& bound = graphs[c].graph.has(i, j) ? least_in : most_out;
          bound = graphs[c].graph.has(i, j) ? std::min(bound, scores(i, j))
                                            : std::max(bound, scores(i, j));
        }
        ASSERT_GE(least_in, most_out);
      }
    }
    EXPECT_EQ(graphs.back().graph, legal_graph(kN, causal));
  }
}

}  // namespace
}  // namespace scaling
