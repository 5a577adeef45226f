// BigBird's blocks: which there are, where random ones fall, and attention over them.
#include <set>

#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/bigbird.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

struct Sizes {
  std::int64_t block, random;
  RandomBlocks rule = RandomBlocks::uniform;
  std::string text() const {
    return "block " + std::to_string(block) + " random " + std::to_string(random) + " " +
           print_value(rule);
  }
};

ModelConfig config(const Sizes& sizes, const std::string& normaliser = "softmax") {
  return config_of_heads({{"bigbird_block", std::to_string(sizes.block)},
                          {"bigbird_random", std::to_string(sizes.random)},
                          {"bigbird_blocks", print_value(sizes.rule)},
                          {"normaliser", normaliser}});
}

BigBird pattern(const Sizes& sizes, std::uint64_t seed = 1) {
  return {sizes.block, sizes.random, sizes.rule, seed};
}

using Pairs = std::set<std::pair<std::int64_t, std::int64_t>>;

Pairs pairs_of(const BigBird& pattern, const PatternCall& call) {
  Pairs all;
  pattern.for_each_pair(call, [&](std::int64_t t, std::int64_t j) {
    EXPECT_TRUE(all.insert({t, j}).second) << t << " sees " << j << " twice";
  });
  return all;
}

/// The pattern's own pairs, of which Blocks says what they must be. For calls of one length and
/// mask.
Rule rule(const Sizes& sizes, std::int64_t length, bool causal) {
  std::vector<Pairs> of_heads;
  for (std::int64_t head = 0; head < 3; ++head) {
    of_heads.push_back(pairs_of(pattern(sizes), {head, length, length, causal}));
  }
  return [of_heads](const PatternCall& call, std::int64_t t, std::int64_t j) {
    return of_heads[std::size_t(call.head)].count({t, j}) > 0;
  };
}

/// Blocks that a block of queries sees; fails unless it sees them whole, but for what is later.
std::set<std::int64_t> seen_by(const Pairs& pairs, const PatternCall& call, std::int64_t block,
                               std::int64_t row) {
  std::set<std::int64_t> seen;
  for (std::int64_t j = 0; j < call.keys; ++j) {
    std::int64_t queries = 0, expected = 0;
    for (std::int64_t t = row * block; t < std::min(call.queries, (row + 1) * block); ++t) {
      queries += std::int64_t(pairs.count({t, j}));
      expected += !call.causal || j <= t;
    }
    if (queries > 0) seen.insert(j / block);
    EXPECT_TRUE(queries == expected || queries == 0) << row << " sees part of " << j;
  }
  return seen;
}

const std::vector<Sizes> kSizes = {{1, 1}, {4, 0},  {4, 2},
                                   {7, 3}, {64, 1}, {5, 2, RandomBlocks::plan}};

TEST(BigBirdAttention, BlocksAreGlobalNearAndRandom) {
  for (const Sizes& sizes : kSizes) {
    for (const std::int64_t length : {1, 9, 40, 83}) {
      SCOPED_TRACE(sizes.text() + " " + text_of(length, false));
      const PatternCall call{2, length, length, false};
      const Pairs pairs = pairs_of(pattern(sizes), call);
      EXPECT_EQ(pattern(sizes).pairs(call), double(pairs.size()));
      const std::int64_t blocks = (length + sizes.block - 1) / sizes.block;
      for (std::int64_t row = 0; row < blocks; ++row) {
        const std::set<std::int64_t> seen = seen_by(pairs, call, sizes.block, row);
        if (row == 0 || row == blocks - 1) {
          EXPECT_EQ(std::int64_t(seen.size()), blocks);
          continue;
        }
        std::set<std::int64_t> certain = {0, row - 1, row, row + 1, blocks - 1};
        for (const std::int64_t block : certain) EXPECT_EQ(seen.count(block), 1u) << row;
        const std::int64_t most = std::min(blocks, std::int64_t(certain.size()) + sizes.random);
        EXPECT_LE(std::int64_t(seen.size()), most);
        // The plan may find no block where it looks.
        if (sizes.rule == RandomBlocks::uniform) {
          EXPECT_EQ(std::int64_t(seen.size()), most);
        }
      }
    }
  }
}

TEST(BigBirdAttention, CausalBlocksAreFirstNearAndRandomAndStay) {
  for (const Sizes& sizes : kSizes) {
    const PatternCall call{1, 83, 83, true}, shorter{1, 40, 40, true};
    SCOPED_TRACE(sizes.text());
    const Pairs pairs = pairs_of(pattern(sizes), call);
    EXPECT_EQ(pattern(sizes).pairs(call), double(pairs.size()));
    for (std::int64_t row = 0; row < (83 + sizes.block - 1) / sizes.block; ++row) {
      const std::set<std::int64_t> seen = seen_by(pairs, call, sizes.block, row);
      std::set<std::int64_t> certain = {0, std::max<std::int64_t>(0, row - 1), row};
      for (const std::int64_t block : certain) EXPECT_EQ(seen.count(block), 1u) << row;
      EXPECT_EQ(std::int64_t(seen.size()),
                std::min(row + 1, std::int64_t(certain.size()) + sizes.random));
    }
    for (const auto& pair : pairs_of(pattern(sizes), shorter)) EXPECT_EQ(pairs.count(pair), 1u);
  }
}

TEST(BigBirdAttention, RandomBlocksAreTheSeedsAndTheHeads) {
  const Sizes sizes = {2, 3};
  const PatternCall call{0, 100, 100, false}, other_head{1, 100, 100, false};
  const Pairs pairs = pairs_of(pattern(sizes), call);
  EXPECT_EQ(pairs, pairs_of(pattern(sizes), call));
  EXPECT_NE(pairs, pairs_of(pattern(sizes), other_head));
  EXPECT_NE(pairs, pairs_of(pattern(sizes, 2), call));
  EXPECT_EQ(pairs.size(), pairs_of(pattern(sizes), other_head).size());
}

/// Every legal block about equally often; by the plan only near the start.
TEST(BigBirdAttention, RulesDrawWhereTheySay) {
  const std::int64_t blocks = 40, row = 20, heads = 4000, random = 3;
  for (const RandomBlocks kind : {RandomBlocks::uniform, RandomBlocks::plan}) {
    const BigBird drawn = pattern({1, random, kind});
    std::vector<double> times(std::size_t(blocks), 0);
    for (std::int64_t head = 0; head < heads; ++head) {
      drawn.for_each_pair({head, blocks, blocks, false}, [&](std::int64_t t, std::int64_t j) {
        if (t == row) times[std::size_t(j)] += 1;
      });
    }
    const std::set<std::int64_t> certain = {0, row - 1, row, row + 1, blocks - 1};
    const std::int64_t end = kind == RandomBlocks::uniform ? blocks : 2 * random + 4;
    const double share =
        double(random) / double(kind == RandomBlocks::uniform ? blocks - 5 : end - 1);
    for (std::int64_t j = 0; j < blocks; ++j) {
      const double expected = certain.count(j) ? 1 : j < end ? share : 0;
      const double deviation = std::sqrt(expected * (1 - expected) / double(heads));
      EXPECT_NEAR(times[std::size_t(j)] / double(heads), expected, 5 * deviation + 1e-9) << j;
    }
  }
}

/// Blocks that some head draws for a row by the plan, beside those that the row sees anyway.
std::set<std::int64_t> drawn_by_plan(std::int64_t blocks, std::int64_t row) {
  const BigBird drawn = pattern({1, 3, RandomBlocks::plan});
  std::set<std::int64_t> all;
  for (std::int64_t head = 0; head < 500; ++head) {
    drawn.for_each_pair({head, blocks, blocks, false}, [&](std::int64_t t, std::int64_t j) {
      if (t == row) all.insert(j);
    });
  }
  for (const std::int64_t certain : {std::int64_t(0), row - 1, row, row + 1, blocks - 1}) {
    all.erase(certain);
  }
  return all;
}

/// The legal blocks of the released generator, at the edges of its stretches:
/// the first 11 blocks of 40, 8 and 2 of 10, all 7.
TEST(BigBirdAttention, ThePlanLeavesOutEdges) {
  using Blocks = std::set<std::int64_t>;
  EXPECT_EQ(drawn_by_plan(40, 20), (Blocks{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(drawn_by_plan(40, 1), (Blocks{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(drawn_by_plan(40, 9), (Blocks{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(drawn_by_plan(40, 5), (Blocks{1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(drawn_by_plan(10, 1), (Blocks{3, 4, 5}));
  EXPECT_EQ(drawn_by_plan(10, 4), (Blocks{1, 2, 6, 8}));
  EXPECT_EQ(drawn_by_plan(10, 6), (Blocks{2, 3, 4, 8}));
  EXPECT_EQ(drawn_by_plan(7, 1), (Blocks{3, 4}));
  EXPECT_EQ(drawn_by_plan(7, 3), (Blocks{1, 5}));
  EXPECT_EQ(drawn_by_plan(7, 5), (Blocks{2, 3}));
}

/// Of published lengths all are among the first 1024 positions.
TEST(BigBirdAttention, ThePlanKnowsPublishedLengths) {
  const Sizes sizes = {64, 3, RandomBlocks::plan};
  const PatternCall call{0, 2048, 2048, false};
  const Pairs pairs = pairs_of(pattern(sizes), call);
  std::int64_t random = 0;
  for (std::int64_t row = 3; row < 29; ++row) {
    for (std::int64_t block = 1; block < 31; ++block) {
      if (std::abs(block - row) <= 1 || !pairs.count({row * 64, block * 64})) continue;
      EXPECT_LT(block, 16) << row;
      ++random;
    }
  }
  EXPECT_EQ(random, 26 * 3);
}

TEST(BigBirdAttention, PairsAreTheFormula) {
  const std::int64_t n = 4096, b = 64, r = 3, blocks = n / b;
  const double pairs = pattern({b, r}).pairs({0, n, n, false});
  EXPECT_EQ(pairs, double(2 * b * n + 2 * b * (4 + r) * b + (blocks - 4) * b * (5 + r) * b));
  EXPECT_EQ(pairs, 2'547'712);
  EXPECT_EQ(BigBirdAttention(config({b, r})).work(n, false).pairs, 3 * pairs);
}

TEST(BigBirdAttention, IsAttentionOverItsPairs) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    for (const std::int64_t length : {6, 70, 150}) {
      for (const bool causal : {false, true}) {
        const Rule allowed = rule(sizes, length, causal);
        expect_is_rule(BigBirdAttention(config(sizes)), length, causal, allowed);
        if (length > 70) continue;
        expect_is_rule(BigBirdAttention(config(sizes, "entmax15")), length, causal, allowed, 1.5);
      }
    }
  }
}

TEST(BigBirdAttention, StepIsForward) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    for (const std::int64_t length : {1, 23, 80}) {
      // Causal pairs of a sequence are those of a longer one.
      expect_decodes(BigBirdAttention(config(sizes)), pattern(sizes), rule(sizes, length, true),
                     length);
    }
  }
}

TEST(BigBirdAttention, NothingComesFromLaterPositions) {
  for (const Sizes& sizes : kSizes) expect_no_leak(BigBirdAttention(config(sizes)), 90);
}

TEST(BigBirdAttention, MemoryIsLinearInLength) {
  expect_linear_memory(BigBirdAttention(config({16, 2}, "entmax15")));
}

TEST(BigBirdAttention, DropoutIsRepeatedInBackward) {
  expect_dropout_is_repeated(BigBirdAttention(config({4, 2})), 150);
}

TEST(BigBirdAttention, InTheLimitItIsFull) {
  const AttentionInput in(150, 150, 24);
  for (const bool causal : {false, true}) {
    const AttentionMask mask{.causal = causal};
    const auto run = [&](const SelfAttention& layer) {
      return run_attention(layer, training_pass(), in, mask);
    };
    const AttentionResult full = run(FullAttention(config_of_heads({})));
    // 15 blocks, of which each sees 4 + 11 at least, or those before it 3 + 12.
    expect_same(run(BigBirdAttention(config({10, causal ? 12 : 11}))), full);
    expect_same(run(BigBirdAttention(config({10, 100}))), full);
    expect_same(run(BigBirdAttention(config({150, 0}))), full);
  }
}

TEST(BigBirdAttention, BadSizesAreRefused) {
  const auto text = [](const Sizes& sizes) { return refusal<BigBirdAttention>(config(sizes)); };
  EXPECT_NE(text({0, 1}).find("bigbird_block 0"), std::string::npos);
  EXPECT_NE(text({4, -1}).find("bigbird_random -1"), std::string::npos);
  EXPECT_EQ(text({4, 0}), "");
  ModelConfig short_one = config({64, 1});
  short_one.max_length = 63;
  const std::string refused = refusal<BigBirdAttention>(short_one);
  EXPECT_NE(refused.find("bigbird_block 64"), std::string::npos) << refused;
  EXPECT_NE(refused.find("max_length 63"), std::string::npos) << refused;
  short_one.max_length = 64;
  EXPECT_EQ(refusal<BigBirdAttention>(short_one), "");
}

}  // namespace
}  // namespace scaling
