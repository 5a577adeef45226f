// Scores of nested windows against scores pair by pair, and what must never get worse.
#include "models/sparsefinder/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "kernels/check.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

const std::vector<std::int64_t> kWidths = {0, 1, 3, 11, 51, 139, 251};

std::map<std::string, double> by_name(const GraphScores& scores) {
  std::map<std::string, double> found;
  GraphScores::fields(scores, [&found](const char* name, double value) { found[name] = value; });
  return found;
}

void expect_same(const GraphScores& ours, const GraphScores& expected, const std::string& what) {
  const auto theirs = by_name(expected);
  ASSERT_EQ(theirs.size(), kScoreFields);
  for (const auto& [name, value] : by_name(ours)) {
    EXPECT_NEAR(value, theirs.at(name), 1e-6) << what << ", " << name;
  }
}

TEST(WindowScorerTest, IsThatOfTheUnitedGraph) {
  for (const std::int64_t n : {1, 5, 64, 70}) {
    for (const bool causal : {false, true}) {
      const GoldGraph gold = drawn_gold(n, causal, std::uint64_t(n));
      for (const GlobalTokens globals :
           {GlobalTokens::none, GlobalTokens::first, GlobalTokens::first_and_last}) {
        for (const float density : {0.0f, 0.1f, 1.0f}) {
          Prediction base{drawn_graph(n, density, 3), 0};
          base.operations = 2 * double(base.graph.pairs()) + 5;  // buckets that overlap
          base.buckets = {0.5, 3};
          const auto ours = WindowScorer(gold, globals, kWidths).score(base);
          ASSERT_EQ(ours.size(), kWidths.size());
          HeadGraph legal_base = base.graph;
          keep_legal(legal_base, causal);
          for (std::size_t w = 0; w < kWidths.size(); ++w) {
            HeadGraph graph = base.graph;
            add_globals(graph, globals);
            graph |= window_graph(n, kWidths[w]);
            keep_legal(graph, causal);
            const double more = double(graph.pairs() - legal_base.pairs());
            const GraphScores expected =
                score_graph(gold, graph, base.operations + more, base.buckets);
            expect_same(ours[w], expected,
                        std::to_string(n) + " positions, width " + std::to_string(kWidths[w]));
          }
        }
      }
    }
  }
  EXPECT_THROW(
      WindowScorer(drawn_gold(5, true, 1), GlobalTokens::none, std::vector<std::int64_t>{4}),
      UserError);
}

TEST(ScoreGraph, KnowsNothingAndEverything) {
  const GoldGraph gold = drawn_gold(40, true, 2);
  const GraphScores all = score_graph(gold, legal_graph(40, true), 1600);
  EXPECT_EQ(all.recall, 1);
  EXPECT_EQ(all.sparsity, 0);
  EXPECT_EQ(all.exact, 1);
  EXPECT_EQ(all.empty_rows, 0);
  EXPECT_EQ(all.computation_sparsity, 0);
  EXPECT_NEAR(all.mass_recall, 1, 1e-5);
  EXPECT_NEAR(all.precision, double(gold.pairs()) / double(legal_pairs(40, true)), 1e-12);
  const GraphScores none = score_graph(gold, HeadGraph(40), 0);
  EXPECT_EQ(none.recall, 0);
  EXPECT_EQ(none.sparsity, 1);
  EXPECT_EQ(none.exact, 0);
  EXPECT_EQ(none.empty_rows, 1);
  EXPECT_EQ(none.mass_recall, 0);
  const GraphScores itself = score_graph(gold, gold.graph(), 0);
  EXPECT_EQ(itself.recall, 1);
  EXPECT_EQ(itself.precision, 1);
  EXPECT_NEAR(itself.sparsity, 1 - double(gold.pairs()) / double(legal_pairs(40, true)), 1e-12);
}

/// T4: pairs that are added never lower recall or mass recall and never raise sparsity.
TEST(ScoreGraph, MorePairsFindMore) {
  for (const bool causal : {false, true}) {
    const GoldGraph gold = drawn_gold(65, causal, 4);
    HeadGraph graph(65);
    GraphScores before = score_graph(gold, graph, 0);
    for (std::uint64_t step = 0; step < 12; ++step) {
      graph |= drawn_graph(65, 0.15f, step);
      HeadGraph legal = graph;
      keep_legal(legal, causal);
      const GraphScores now = score_graph(gold, legal, 0);
      EXPECT_GE(now.recall, before.recall);
      EXPECT_GE(now.mass_recall, before.mass_recall);
      EXPECT_GE(now.exact, before.exact);
      EXPECT_LE(now.sparsity, before.sparsity);
      before = now;
    }
    EXPECT_GT(before.recall, 0.5);
  }
}

TEST(MeanOf, IsUnweighted) {
  GraphScores a, b;
  a.recall = 1;
  a.computation_sparsity = -1;
  b.recall = 0.5;
  b.computation_sparsity = 0;
  const std::vector<GraphScores> both = {a, b};
  EXPECT_DOUBLE_EQ(mean_of(both).recall, 0.75);
  EXPECT_DOUBLE_EQ(mean_of(both).computation_sparsity, -0.5);
  EXPECT_DOUBLE_EQ(mean_of(both).sparsity, 0);
}

}  // namespace
}  // namespace scaling
