// Patterns that share the heads of a layer, against the definition of each head.
#include "models/layers/attention/split_heads.h"

#include <cstdlib>

#include "models/layers/catalog.h"
#include "tests/layers/pattern_checks.h"

namespace scaling {
namespace {

/// Three heads, one each.
constexpr const char* kText = "window:window_width=5+full+banded:band_width=4";

std::unique_ptr<SelfAttention> layer(const std::string& text) {
  return make_self_attention(config_of_heads({{"attention", text}}));
}

const Rule kRule = [](const PatternCall& call, std::int64_t t, std::int64_t j) {
  if (call.head == 1) return true;
  return std::abs(t - j) <= (call.head == 0 ? 2 : 3);
};

TEST(SplitAttention, EachHeadIsItsDefinition) {
  for (const std::int64_t length : {6, 70, 150}) {
    for (const bool causal : {false, true}) expect_is_rule(*layer(kText), length, causal, kRule);
  }
  const std::string entmax =
      "window:window_width=5:normaliser=entmax15"
      "+full:normaliser=entmax15+banded:band_width=4:normaliser=entmax15";
  expect_is_rule(*layer(entmax), 40, true, kRule, 1.5);
}

TEST(SplitAttention, PairsAreThoseOfTheDefinition) {
  for (const std::int64_t length : {1, 2, 7, 41}) {
    for (const bool causal : {false, true}) {
      double pairs = 0;
      for (std::int64_t head = 0; head < 3; ++head) {
        const PatternCall call{head, length, length, causal};
        for (std::int64_t t = 0; t < length; ++t) {
          for (std::int64_t j = 0; j < length; ++j) pairs += allows(kRule, call, t, j);
        }
      }
      EXPECT_EQ(layer(kText)->work(length, causal).pairs, pairs) << length;
    }
  }
}

TEST(SplitAttention, StepIsForwardAndReadsItsPairs) {
  const AttentionInput in(60, 60, 24);
  const auto split = layer(kText);
  expect_close(decode_attention(*split, in), split->forward(in.q, in.k, in.v, true), "step");
  EXPECT_EQ(total(split->step_cost(2, 60)).bytes, 2.0 * (3 + 60 + 4) * 2 * 8 * 4);
  EXPECT_EQ(split->cache_bytes(2, 60), KeyValueCache::bytes(2, 1, 3, 8) +
                                           KeyValueCache::bytes(2, 1, 60, 8) +
                                           KeyValueCache::bytes(2, 1, 4, 8));
}

TEST(SplitAttention, NothingComesFromLaterPositions) { expect_no_leak(*layer(kText), 90); }

TEST(SplitAttention, MemoryIsLinearInLength) {
  expect_linear_memory(*layer("window:window_width=41+window:window_width=9+banded:band_width=5"));
}

TEST(SplitAttention, DropoutIsRepeatedInBackward) {
  expect_dropout_is_repeated(*layer("window:window_width=9+full+full"), 150);
}

}  // namespace
}  // namespace scaling
