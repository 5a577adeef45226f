// Rows of bits against pairs one by one.
#include "models/sparsefinder/graph.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/check.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

/// 1 and 64 fill no word and one; 65 and 130 begin others.
constexpr std::int64_t kPositions[] = {1, 3, 63, 64, 65, 130};

TEST(HeadGraphTest, CountsAreThoseOfPairs) {
  for (const std::int64_t n : kPositions) {
    const HeadGraph graph = drawn_graph(n, 0.3f, std::uint64_t(n));
    std::int64_t all = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) all += graph.has(i, j);
    }
    EXPECT_EQ(graph.pairs(), all) << n;
    for (const Range keys : {Range{0, n}, Range{-5, n + 9}, Range{2, 2}, Range{1, n / 2},
                             Range{n / 2, n}, Range{n - 1, n}, Range{5, 3}}) {
      for (const std::int64_t query : {std::int64_t(0), n / 2, n - 1}) {
        std::int64_t inside = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          inside += j >= keys.begin && j < keys.end && graph.has(query, j);
        }
        EXPECT_EQ(graph.pairs(query, keys), inside) << n << " " << keys.begin << " " << keys.end;
      }
    }
  }
}

TEST(HeadGraphTest, UnionAndCutArePairByPair) {
  const std::int64_t n = 70;
  const HeadGraph one = drawn_graph(n, 0.4f, 1), other = drawn_graph(n, 0.4f, 2);
  HeadGraph both = one, common = one;
  both |= other;
  common &= other;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(both.has(i, j), one.has(i, j) || other.has(i, j));
      ASSERT_EQ(common.has(i, j), one.has(i, j) && other.has(i, j));
    }
  }
}

TEST(HeadGraphTest, WindowsGlobalsAndMasksAreAsDefined) {
  for (const std::int64_t n : kPositions) {
    for (const std::int64_t width : {0, 1, 3, 27, 251}) {
      const HeadGraph graph = window_graph(n, width);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          ASSERT_EQ(graph.has(i, j), width > 0 && 2 * std::abs(i - j) <= width - 1);
        }
      }
    }
    for (const GlobalTokens globals :
         {GlobalTokens::none, GlobalTokens::first, GlobalTokens::first_and_last}) {
      for (const bool causal : {false, true}) {
        HeadGraph graph(n);
        add_globals(graph, globals);
        keep_legal(graph, causal);
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            const bool of_first = globals != GlobalTokens::none && (i == 0 || j == 0);
            const bool of_last =
                globals == GlobalTokens::first_and_last && (i == n - 1 || j == n - 1);
            ASSERT_EQ(graph.has(i, j), (of_first || of_last) && (!causal || j <= i));
          }
        }
      }
    }
    EXPECT_EQ(legal_graph(n, true).pairs(), legal_pairs(n, true));
    EXPECT_EQ(legal_graph(n, false).pairs(), legal_pairs(n, false));
  }
  EXPECT_THROW(window_graph(8, 4), UserError);
  EXPECT_THROW(window_graph(8, -1), UserError);
}

}  // namespace
}  // namespace scaling
