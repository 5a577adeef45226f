// Attention within a window, against its definition.
#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/window.h"
#include "tests/layers/attention_definition.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

ModelConfig config(std::int64_t width, Normaliser normaliser = Normaliser::softmax) {
  ModelConfig c;
  c.d_model = 24;
  c.n_heads = 3;
  set_field(c, "window_width", width);
  set_field(c, "normaliser", print_value(normaliser));
  return c;
}

TEST(WindowAttentionTest, IsTheDefinition) {
  for (const std::int64_t width : {3, 31, 601, 2001}) {
    const auto is_near = [&](std::int64_t t, std::int64_t j) {
      return std::abs(t - j) <= (width - 1) / 2;
    };
    for (const std::int64_t length : {2, 70, 700}) {
      for (const bool causal : {false, true}) {
        for (const bool is_padded : {false, true}) {
          SCOPED_TRACE(std::to_string(width) + " of " + std::to_string(length) +
                       (causal ? " causal" : "") + (is_padded ? " padded" : ""));
          std::vector<std::uint8_t> seen(std::size_t(length), 1);
          for (std::int64_t j = 0; is_padded && j < length; ++j) seen[std::size_t(j)] = j % 5 != 3;
          const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
          const AttentionInput in(length, length, 24);
          expect_same(run_attention(WindowAttention(config(width)), training_pass(), in, mask),
                      define_attention(in, 3, mask, 1, is_near));
          if (length > 70) continue;
          expect_same(run_attention(WindowAttention(config(width, Normaliser::entmax15)),
                                    training_pass(), in, mask),
                      define_attention(in, 3, mask, 1.5, is_near));
        }
      }
    }
  }
}

/// Of sequences longer than a head's rows that are held at once.
TEST(WindowAttentionTest, PiecesOfALongSequenceAreTheSame) {
  constexpr std::int64_t kLength = 5000, kSide = 15, kRows = 300;
  const AttentionInput in(kLength, kLength, 24);
  for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::entmax15}) {
    const WindowAttention layer(config(2 * kSide + 1, normaliser));
    const AttentionResult whole = run_attention(layer, training_pass(), in, {}, 2);
    for (const std::int64_t first : {std::int64_t(1900), kLength - kRows}) {
      SCOPED_TRACE("from " + std::to_string(first));
      AttentionInput piece = in;
      for (Mat* rows : {&piece.q, &piece.k, &piece.v, &piece.dout}) {
        *rows = Mat(rows->middleRows(first, kRows));
      }
      const AttentionResult of_piece = run_attention(layer, training_pass(), piece, {});
      // Those far enough from where the piece was cut out.
      const auto middle = [&](const Mat& rows, std::int64_t from) {
        return Mat(rows.middleRows(from + 2 * kSide, kRows - 4 * kSide));
      };
      const auto middles = [&](const AttentionResult& r, std::int64_t from) {
        return AttentionResult{middle(r.o, from), middle(r.dq, from), middle(r.dk, from),
                               middle(r.dv, from)};
      };
      expect_same(middles(whole, first), middles(of_piece, 0));
    }
  }
}

TEST(WindowAttentionTest, WideEnoughItIsFull) {
  const AttentionInput in(150, 150, 24);
  const AttentionResult full =
      run_attention(FullAttention(config(1)), training_pass(), in, {.causal = true});
  const AttentionResult wide =
      run_attention(WindowAttention(config(299)), training_pass(), in, {.causal = true});
  EXPECT_TRUE(wide.o == full.o && wide.dq == full.dq && wide.dk == full.dk && wide.dv == full.dv);
}

/// Long enough that slots of the cache are used again and again.
TEST(WindowAttentionTest, StepIsForward) {
  const AttentionInput in(50, 50, 24);
  for (const std::int64_t width : {1, 7, 31, 201}) {
    for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::sparsemax}) {
      const WindowAttention layer(config(width, normaliser));
      expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true),
                   "width " + std::to_string(width));
    }
  }
}

TEST(WindowAttentionTest, PairsAndCacheAreThoseOfTheWindow) {
  for (const std::int64_t width : {1, 7, 31, 201}) {
    const WindowAttention layer(config(width));
    for (const std::int64_t length : {1, 5, 40}) {
      for (const bool causal : {false, true}) {
        double pairs = 0;
        for (std::int64_t t = 0; t < length; ++t) {
          for (std::int64_t j = 0; j < (causal ? t + 1 : length); ++j) {
            pairs += std::abs(t - j) <= (width - 1) / 2;
          }
        }
        EXPECT_EQ(layer.work(length, causal).pairs, 3 * pairs) << width << " of " << length;
      }
    }
    // What a decode holds and reads stops growing.
    const std::int64_t side = (width + 1) / 2;
    EXPECT_EQ(layer.cache_bytes(2, 1000), KeyValueCache::bytes(2, 3, side, 8));
    EXPECT_EQ(total(layer.step_cost(1, 1000)).bytes, 4.0 * 2 * double(side) * 24);
  }
}

TEST(WindowAttentionTest, EvenWidthsAreRefused) {
  for (const std::int64_t width : {0, 8, -3}) {
    EXPECT_NE(refusal<WindowAttention>(config(width)).find("window_width " + std::to_string(width)),
              std::string::npos)
        << width;
  }
  WindowAttention::validate(config(1));
}

}  // namespace
}  // namespace scaling
