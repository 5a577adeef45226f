// The Sparse Transformer's patterns, banded, strided and fixed, against their definitions.
#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/banded.h"
#include "models/layers/attention/patterns/fixed.h"
#include "models/layers/attention/patterns/strided.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

std::string text(std::int64_t value) { return std::to_string(value); }

ModelConfig banded(std::int64_t width, const std::string& normaliser = "softmax") {
  return config_of_heads({{"band_width", text(width)}, {"normaliser", normaliser}});
}

ModelConfig strided(std::int64_t stride, const std::string& normaliser = "softmax") {
  return config_of_heads({{"attention_stride", text(stride)}, {"normaliser", normaliser}});
}

struct FixedSizes {
  std::int64_t block, summary, subblocks;
};

ModelConfig fixed(const FixedSizes& sizes, const std::string& normaliser = "softmax") {
  return config_of_heads({{"attention_stride", text(sizes.block)},
                          {"fixed_summary", text(sizes.summary)},
                          {"fixed_subblocks", text(sizes.subblocks)},
                          {"normaliser", normaliser}});
}

Rule band_rule(std::int64_t width) {
  return [width](const PatternCall&, std::int64_t t, std::int64_t j) {
    return std::abs(t - j) < width;
  };
}

Rule strided_rule(std::int64_t stride) {
  return [stride](const PatternCall&, std::int64_t t, std::int64_t j) {
    return std::abs(t - j) <= stride || (t - j) % stride == 0;
  };
}

Rule fixed_rule(const FixedSizes& sizes) {
  return [sizes](const PatternCall& call, std::int64_t t, std::int64_t j) {
    const std::int64_t from_end = sizes.block - j % sizes.block;  // 1: the block's last
    return t / sizes.block == j / sizes.block ||
           (from_end - 1) / sizes.summary == call.head % sizes.subblocks;
  };
}

const std::vector<FixedSizes> kFixed = {{1, 1, 1}, {4, 1, 1}, {7, 2, 3}, {5, 5, 1}, {64, 8, 2}};

TEST(SparseTransformerAttention, IsTheDefinition) {
  for (const std::int64_t length : {2, 70, 150}) {
    for (const bool causal : {false, true}) {
      for (const std::int64_t size : {1, 3, 16, 130}) {
        SCOPED_TRACE(size);
        expect_is_rule(BandedAttention(banded(size + 1)), length, causal, band_rule(size + 1));
        expect_is_rule(StridedAttention(strided(size)), length, causal, strided_rule(size));
        if (length > 70) continue;
        expect_is_rule(StridedAttention(strided(size, "entmax15")), length, causal,
                       strided_rule(size), 1.5);
      }
      for (const FixedSizes& sizes : kFixed) {
        SCOPED_TRACE(text(sizes.block) + " " + text(sizes.summary) + " " + text(sizes.subblocks));
        expect_is_rule(FixedAttention(fixed(sizes)), length, causal, fixed_rule(sizes));
        if (length > 70) continue;
        expect_is_rule(FixedAttention(fixed(sizes, "entmax15")), length, causal, fixed_rule(sizes),
                       1.5);
      }
    }
  }
}

/// More keys than a tile has, in lists and in place.
TEST(SparseTransformerAttention, ManyTilesAreTheDefinition) {
  const FixedSizes sizes{16, 15, 1};
  expect_is_rule(FixedAttention(fixed(sizes)), 700, true, fixed_rule(sizes));
  expect_is_rule(StridedAttention(strided(1)), 700, true, strided_rule(1));
}

TEST(SparseTransformerAttention, PairsAreThoseOfTheDefinition) {
  for (const std::int64_t size : {1, 2, 3, 5, 16, 100}) {
    SCOPED_TRACE(size);
    expect_pairs(Window(2 * size - 1), band_rule(size));
    expect_pairs(Strided(size), strided_rule(size));
  }
  for (const FixedSizes& sizes : kFixed) {
    SCOPED_TRACE(text(sizes.block) + " " + text(sizes.summary) + " " + text(sizes.subblocks));
    expect_pairs(Fixed(sizes.block, sizes.summary, sizes.subblocks), fixed_rule(sizes));
  }
}

/// Sums over queries, and shares of all pairs of 4096 positions.
TEST(SparseTransformerAttention, PairsAreTheFormulas) {
  const std::int64_t n = 4096;
  const PatternCall call{0, n, n, true};
  const double all = double(n) * double(n + 1) / 2;
  double band = 0, columns = 0, twice = 0, blocks = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    band += double(std::min<std::int64_t>(i + 1, 64 + 1));
    columns += double(i / 64 + 1);
    twice += i >= 64 ? 2 : 1;
    blocks += double(i % 128 + 1 + 8 * (i / 128));
  }
  EXPECT_EQ(Strided(64).pairs(call), band + columns - twice);
  EXPECT_EQ(Fixed(128, 8, 1).pairs(call), blocks);
  EXPECT_NEAR(Strided(64).pairs(call) / all, 0.0464, 5e-5);
  EXPECT_NEAR(Fixed(128, 8, 1).pairs(call) / all, 0.0920, 5e-5);
  EXPECT_NEAR(Window(2 * 128 - 1).pairs(call) / all, 0.0615, 5e-5);
}

TEST(SparseTransformerAttention, StepIsForward) {
  for (const std::int64_t size : {1, 2, 7, 40}) {
    SCOPED_TRACE(size);
    for (const std::int64_t length : {1, 23, 64}) {
      expect_decodes(BandedAttention(banded(size)), Window(2 * size - 1), band_rule(size), length);
      expect_decodes(StridedAttention(strided(size)), Strided(size), strided_rule(size), length);
    }
    const AttentionInput in(50, 50, 24);
    const StridedAttention layer(strided(size, "sparsemax"));
    expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true), "sparsemax");
  }
  for (const FixedSizes& sizes : kFixed) {
    SCOPED_TRACE(text(sizes.block) + " " + text(sizes.summary) + " " + text(sizes.subblocks));
    for (const std::int64_t length : {1, 23, 64}) {
      expect_decodes(FixedAttention(fixed(sizes)),
                     Fixed(sizes.block, sizes.summary, sizes.subblocks), fixed_rule(sizes), length);
    }
  }
}

/// A band holds what it reads, fixed its summaries, strided each position once and its ring.
TEST(SparseTransformerAttention, DecodesHoldWhatTheyMayRead) {
  EXPECT_EQ(BandedAttention(banded(64)).cache_bytes(2, 1000), KeyValueCache::bytes(2, 3, 64, 8));
  EXPECT_EQ(FixedAttention(fixed({100, 10, 1})).cache_bytes(2, 1000),
            KeyValueCache::bytes(2, 3, 90 + 10 * 10, 8));
  EXPECT_EQ(Fixed(1'000'000, 10, 1).slots(20), 20 + 10);
  EXPECT_LE(Strided(100).slots(10'000), 10'000 + 101);
  EXPECT_EQ(Strided(100).slots(90), 90);
}

/// Thresholds spare values only of what is read where it lies: of several ranges all is copied.
TEST(SparseTransformerAttention, ThresholdsArePricedByWhatIsCopied) {
  const auto values_read = [](const ModelConfig& config, const Pattern& pattern) {
    double keys = 0;
    for (std::int64_t head = 0; head < 3; ++head) keys += double(pattern.keys_read(head, 200));
    const double bytes = total(StridedAttention(config).step_cost(1, 200)).bytes;
    return bytes / (8 * 4) - keys;
  };
  EXPECT_EQ(values_read(strided(10, "entmax15"), Strided(10)), 3 * (11 + 18));
  EXPECT_EQ(values_read(strided(500, "entmax15"), Strided(500)), 3);
}

TEST(SparseTransformerAttention, NothingComesFromLaterPositions) {
  for (const std::int64_t length : {20, 150}) {
    expect_no_leak(BandedAttention(banded(5)), length);
    expect_no_leak(StridedAttention(strided(5)), length);
    expect_no_leak(FixedAttention(fixed({5, 2, 2})), length);
  }
}

TEST(SparseTransformerAttention, MemoryIsLinearInLength) {
  expect_linear_memory(BandedAttention(banded(40, "entmax15")));
  expect_linear_memory(StridedAttention(strided(40)));
  expect_linear_memory(FixedAttention(fixed({40, 2, 2}, "entmax15")));
}

TEST(SparseTransformerAttention, DropoutIsRepeatedInBackward) {
  expect_dropout_is_repeated(StridedAttention(strided(5)), 150);
  expect_dropout_is_repeated(FixedAttention(fixed({5, 2, 2})), 150);
}

TEST(SparseTransformerAttention, InTheLimitItIsFull) {
  const AttentionInput in(150, 150, 24);
  const AttentionMask causal{.causal = true};
  const auto run = [&](const SelfAttention& layer) {
    return run_attention(layer, training_pass(), in, causal);
  };
  const AttentionResult full = run(FullAttention(config_of_heads({})));
  expect_same(run(BandedAttention(banded(150))), full);
  expect_same(run(StridedAttention(strided(1))), full);
  expect_same(run(StridedAttention(strided(149))), full);
  expect_same(run(FixedAttention(fixed({150, 1, 1}))), full);
  expect_same(run(FixedAttention(fixed({7, 7, 1}))), full);
}

/// "A query sees every earlier position through two layers."
TEST(SparseTransformerAttention, TwoStridedLayersReachEverything) {
  const std::int64_t n = 60;
  for (const std::int64_t stride : {1, 4, 7, 30}) {
    Eigen::MatrixXi sees = Eigen::MatrixXi::Zero(n, n);
    Strided(stride).for_each_pair({0, n, n, true},
                                  [&](std::int64_t t, std::int64_t j) { sees(t, j) = 1; });
    const Eigen::MatrixXi through = sees * sees;
    for (std::int64_t t = 0; t < n; ++t) {
      for (std::int64_t j = 0; j <= t; ++j) EXPECT_GT(through(t, j), 0) << t << " " << j;
    }
  }
}

TEST(SparseTransformerAttention, BadSizesAreRefused) {
  EXPECT_NE(refusal<BandedAttention>(banded(0)).find("band_width 0"), std::string::npos);
  EXPECT_NE(refusal<StridedAttention>(strided(-2)).find("attention_stride -2"), std::string::npos);
  const std::string message = refusal<FixedAttention>(fixed({16, 5, 4}));
  for (const char* part : {"fixed_summary 5", "4", "attention_stride 16", "choose"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(refusal<FixedAttention>(fixed({16, 4, 4})), "");
}

}  // namespace
}  // namespace scaling
