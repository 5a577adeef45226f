// Windows with gaps and global positions, against their definition.
#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/longformer.h"
#include "tests/layers/pattern_checks.h"

namespace scaling {
namespace {

struct Sizes {
  std::int64_t width, dilation, global;
  std::string text() const {
    return "width " + std::to_string(width) + " dilation " + std::to_string(dilation) + " global " +
           std::to_string(global);
  }
};

ModelConfig config(const Sizes& sizes, const std::string& normaliser = "softmax") {
  return config_of_heads({{"window_width", std::to_string(sizes.width)},
                          {"longformer_dilation", std::to_string(sizes.dilation)},
                          {"longformer_global", std::to_string(sizes.global)},
                          {"normaliser", normaliser}});
}

Longformer pattern(const Sizes& sizes) { return {sizes.width, sizes.dilation, sizes.global}; }

Rule rule(const Sizes& sizes) {
  return [sizes](const PatternCall&, std::int64_t t, std::int64_t j) {
    const std::int64_t apart = std::abs(t - j);
    return t < sizes.global || j < sizes.global ||
           (apart % sizes.dilation == 0 && apart / sizes.dilation <= (sizes.width - 1) / 2);
  };
}

const std::vector<Sizes> kSizes = {{7, 1, 0}, {7, 1, 1}, {31, 1, 3}, {1, 1, 2},
                                   {5, 3, 0}, {5, 3, 2}, {9, 2, 70}, {201, 1, 1}};

TEST(LongformerAttention, IsTheDefinition) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    for (const std::int64_t length : {6, 70, 150}) {
      for (const bool causal : {false, true}) {
        expect_is_rule(LongformerAttention(config(sizes)), length, causal, rule(sizes));
        if (length > 70) continue;
        expect_is_rule(LongformerAttention(config(sizes, "entmax15")), length, causal, rule(sizes),
                       1.5);
      }
    }
  }
}

TEST(LongformerAttention, PairsAreThoseOfTheDefinition) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    expect_pairs(pattern(sizes), rule(sizes));
  }
}

TEST(LongformerAttention, StepIsForward) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    for (const std::int64_t length : {1, 23, 80}) {
      expect_decodes(LongformerAttention(config(sizes)), pattern(sizes), rule(sizes), length);
    }
  }
  const AttentionInput in(50, 50, 24);
  const LongformerAttention layer(config({5, 3, 2}, "sparsemax"));
  expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true), "sparsemax");
}

/// A ring of half the window and itself for each residue, and the global positions.
TEST(LongformerAttention, DecodesHoldWhatTheyMayRead) {
  EXPECT_EQ(LongformerAttention(config({31, 1, 3})).cache_bytes(2, 1000),
            KeyValueCache::bytes(2, 3, 16 + 3, 8));
  EXPECT_EQ(pattern({31, 4, 3}).slots(1000), 4 * 16 + 3);
  EXPECT_EQ(pattern({31, 4, 3}).slots(2), 2);
  EXPECT_EQ(total(LongformerAttention(config({513, 1, 0})).step_cost(1, 4096)).bytes,
            3.0 * 2 * 257 * 8 * 4);
}

TEST(LongformerAttention, NothingComesFromLaterPositions) {
  for (const Sizes& sizes : kSizes) expect_no_leak(LongformerAttention(config(sizes)), 90);
}

TEST(LongformerAttention, MemoryIsLinearInLength) {
  expect_linear_memory(LongformerAttention(config({41, 1, 2}, "entmax15")));
  expect_linear_memory(LongformerAttention(config({41, 3, 2})));
}

TEST(LongformerAttention, DropoutIsRepeatedInBackward) {
  expect_dropout_is_repeated(LongformerAttention(config({9, 1, 2})), 150);
  expect_dropout_is_repeated(LongformerAttention(config({9, 3, 2})), 150);
}

TEST(LongformerAttention, InTheLimitItIsFullOrWindow) {
  for (const bool causal : {false, true}) {
    const AttentionInput in(150, 150, 24);
    const AttentionMask mask{.causal = causal};
    const auto run = [&](const SelfAttention& layer) {
      return run_attention(layer, training_pass(), in, mask);
    };
    const AttentionResult full = run(FullAttention(config_of_heads({})));
    expect_same(run(LongformerAttention(config({299, 1, 0}))), full);
    expect_same(run(LongformerAttention(config({299, 1, 5}))), full);
    expect_same(run(LongformerAttention(config({1, 1, 150}))), full);
    const Sizes without_globals = {31, 1, 0};
    const AttentionResult ours = run(LongformerAttention(config(without_globals)));
    const AttentionResult window = run(WindowAttention(config(without_globals)));
    EXPECT_TRUE(ours.o == window.o && ours.dq == window.dq && ours.dk == window.dk &&
                ours.dv == window.dv);
  }
}

TEST(LongformerAttention, BadSizesAreRefused) {
  const auto text = [](const Sizes& sizes) { return refusal<LongformerAttention>(config(sizes)); };
  EXPECT_NE(text({8, 1, 1}).find("window_width 8"), std::string::npos);
  EXPECT_NE(text({7, 0, 1}).find("longformer_dilation 0"), std::string::npos);
  EXPECT_NE(text({7, 1, -1}).find("longformer_global -1"), std::string::npos);
  EXPECT_EQ(text({7, 2, 0}), "");
}

}  // namespace
}  // namespace scaling
