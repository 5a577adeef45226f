// Attention within a paragraph, against its definition.
#include <algorithm>
#include <string>

#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/paragraph.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

ModelConfig config(std::int64_t length, Normaliser normaliser = Normaliser::softmax) {
  return config_of_heads(
      {{"paragraph_length", std::to_string(length)}, {"normaliser", print_value(normaliser)}});
}

Rule shares_paragraph(std::int64_t length) {
  return [length](const PatternCall&, std::int64_t t, std::int64_t j) {
    return t / length == j / length;
  };
}

TEST(ParagraphAttentionTest, PairsAreThoseOfAParagraph) {
  for (const std::int64_t length : {1, 2, 5, 8, 41, 100}) {
    SCOPED_TRACE(length);
    expect_pairs(Paragraphs(length), shares_paragraph(length));
  }
}

/// Paragraphs in a tile, as long as one and over several; the last is shorter.
TEST(ParagraphAttentionTest, IsTheDefinition) {
  for (const std::int64_t length : {7, 64, 150}) {
    for (const bool causal : {false, true}) {
      const Rule rule = shares_paragraph(length);
      expect_is_rule(ParagraphAttention(config(length)), 400, causal, rule);
      expect_is_rule(ParagraphAttention(config(length, Normaliser::entmax15)), 160, causal, rule,
                     1.5);
      expect_is_rule(ParagraphAttention(config(length, Normaliser::sparsemax)), 160, causal, rule,
                     2);
    }
  }
}

/// As where a query sees none but padding anywhere: it weighs what its paragraph has equally.
TEST(ParagraphAttentionTest, AParagraphOfPaddingAloneIsAMean) {
  AttentionInput in(12, 12, 24);
  std::vector<std::uint8_t> seen(12, 1);
  std::fill_n(seen.begin() + 4, 4, std::uint8_t(0));
  const AttentionMask mask{.keys = seen.data()};
  const ParagraphAttention layer(config(4));
  const AttentionResult result = run_attention(layer, training_pass(), in, mask);
  for (std::int64_t t = 4; t < 8; ++t) {
    expect_close(result.o.row(t), in.v.middleRows(4, 4).colwise().mean(), "mean");
  }
  // Other paragraphs do not know it is there.
  in.k.middleRows(4, 4) *= 100;
  in.v.middleRows(4, 4) *= 100;
  const AttentionResult other = run_attention(layer, training_pass(), in, mask);
  EXPECT_TRUE(other.o.topRows(4) == result.o.topRows(4));
  EXPECT_TRUE(other.o.bottomRows(4) == result.o.bottomRows(4));
}

TEST(ParagraphAttentionTest, LongEnoughItIsFull) {
  const AttentionInput in(150, 150, 24);
  std::vector<std::uint8_t> seen(150, 1);
  for (std::size_t j = 3; j < seen.size(); j += 5) seen[j] = 0;
  for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::entmax15}) {
    for (const bool causal : {false, true}) {
      const AttentionMask mask{causal, seen.data()};
      Pass pass = training_pass();
      pass.dropout = 0.1f;
      const AttentionResult full =
          run_attention(FullAttention(config(1, normaliser)), pass, in, mask);
      for (const std::int64_t length : {150, 1000}) {
        const AttentionResult one =
            run_attention(ParagraphAttention(config(length, normaliser)), pass, in, mask);
        EXPECT_TRUE(one.o == full.o && one.dq == full.dq && one.dk == full.dk && one.dv == full.dv)
            << length << " causal " << causal;
      }
    }
  }
}

/// Paragraphs one by one, each a sequence.
TEST(ParagraphAttentionTest, IsFullWithinEach) {
  const AttentionInput in(70, 70, 24);
  const Mat all = ParagraphAttention(config(30)).forward(in.q, in.k, in.v, true);
  for (const std::int64_t first : {0, 30, 60}) {
    const std::int64_t n = std::min<std::int64_t>(30, 70 - first);
    const auto of = [&](const Mat& m) -> Mat { return m.middleRows(first, n); };
    expect_close(of(all), FullAttention(config(1)).forward(of(in.q), of(in.k), of(in.v), true),
                 "from " + std::to_string(first));
  }
}

TEST(ParagraphAttentionTest, StepIsForward) {
  for (const std::int64_t length : {1, 6, 16, 50, 99}) {
    for (const Normaliser normaliser : {Normaliser::softmax}) {
      expect_decodes(ParagraphAttention(config(length, normaliser)), Paragraphs(length),
                     shares_paragraph(length), 50);
    }
    const ParagraphAttention sparse(config(length, Normaliser::sparsemax));
    const AttentionInput in(50, 50, 24);
    expect_close(decode_attention(sparse, in), sparse.forward(in.q, in.k, in.v, true), "sparsemax");
  }
}

/// What a decode holds stops growing.
TEST(ParagraphAttentionTest, ACacheIsOneParagraph) {
  const ParagraphAttention layer(config(31));
  EXPECT_EQ(layer.cache_bytes(2, 1000), KeyValueCache::bytes(2, 3, 31, 8));
  EXPECT_EQ(layer.cache_bytes(2, 10), KeyValueCache::bytes(2, 3, 10, 8));
}

TEST(ParagraphAttentionTest, IsCausalLinearAndDropsOut) {
  const ParagraphAttention layer(config(40));
  expect_no_leak(layer, 100);
  expect_linear_memory(layer);
  expect_dropout_is_repeated(layer, 100);
}

TEST(ParagraphAttentionTest, LengthsThatAreNoneAreRefused) {
  for (const std::int64_t length : {0, -3}) {
    const std::string said = refusal<ParagraphAttention>(config(length));
    EXPECT_NE(said.find("paragraph_length " + std::to_string(length)), std::string::npos) << said;
  }
  EXPECT_EQ(refusal<ParagraphAttention>(config(1)), "");
}

}  // namespace
}  // namespace scaling
