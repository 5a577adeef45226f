// Positions as digits in four bases (paper 4.7): their definition, what training draws,
// gradients, and what is refused. Whole models are held to fixtures (positions_fixed_base),
// decoding to forward in terraformer_test.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/tasks/catalog.h"
#include "models/training/agreement.h"
#include "models/transformer/embedding.h"
#include "models/transformer/transformer.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kExamples = 3, kLength = 7, kWidth = 24, kTokens = 5;

ModelConfig config() {
  ModelConfig c = config_of_shape("tiny");
  c.d_model = kWidth;
  c.n_heads = 3;
  c.encoder_layers = 0;
  c.decoder_layers = 1;
  c.position_encoding = PositionEncoding::fixed_base;
  return c;
}

/// Tokens are 0 everywhere, vectors of positions random.
struct Vectors {
  Vectors() {
    positions.weights.init = {Initializer::Kind::normal, 1};
    initialize({&tokens, &positions.weights}, WeightType::f32, 1, arena, team);
    gradient.assign(std::size_t(positions.weights.count()), 0.0f);
    positions.weights.gradient = gradient.data();
  }
  /// By text: digits are read off the number written in the base.
  std::vector<double> row(std::int64_t position, bool is_first, bool has_digits = true) const {
    std::vector<double> all(std::size_t(kWidth), 0.0);
    const float* w = positions.weights.vector();
    const std::vector<int> bases = {11, 13, 14, 15};
    for (std::size_t b = 0; b < bases.size(); ++b) {
      for (int piece = 0; piece < 8; ++piece) {
        const double power = std::pow(bases[b], piece);
        const double digit = std::fmod(std::floor(double(position) / power), bases[b]);
        for (std::size_t i = 0; i < std::size_t(kWidth / 8); ++i) {
          const std::size_t at = std::size_t(piece) * std::size_t(kWidth / 8) + i;
          if (has_digits) all[at] += digit * double(w[b * std::size_t(kWidth) + at]);
        }
      }
    }
    for (std::size_t i = 0; is_first && i < all.size(); ++i) {
      all[i] += double(w[4 * std::size_t(kWidth) + i]);
    }
    return all;
  }
  void expect_row(const Mat& x, std::int64_t at, const std::vector<double>& expected) const {
    for (std::int64_t i = 0; i < kWidth; ++i) {
      EXPECT_NEAR(double(x(at, i)), expected[std::size_t(i)], 1e-4) << at << " " << i;
    }
  }

  Parameter tokens = Parameter::make_matrix("tokens", kTokens, kWidth, Layout::rows,
                                            {Initializer::Kind::constant, 0});
  PositionVectors positions = PositionVectors::make("positions", config());
  Arena arena{arena_bytes({&tokens, &positions.weights}, WeightType::f32)};
  Team team{1};
  std::vector<float> gradient;
  std::vector<int> ids = std::vector<int>(std::size_t(kExamples * kLength), 3);
};

Pass pass_from(std::uint64_t seed, std::int64_t offsets, float start_from_zero, bool training) {
  return {.gemm = find_gemm("eigen"),
          .examples = kExamples,
          .training = training,
          .seed = seed,
          .start_from_zero = start_from_zero,
          .position_offsets = offsets};
}

TEST(FixedBase, EvaluationIsTheDefinitionFromZero) {
  const Vectors v;
  EXPECT_EQ(v.positions.weights.count(), 5 * kWidth);
  EmbeddingKept kept;
  Mat x;
  Pass pass = pass_from(1, 1000, 0, false);
  embed(pass, v.tokens, v.positions, v.ids, kept, x);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    v.expect_row(x, row, v.row(row % kLength, row % kLength == 0));
    Mat one(1, kWidth);
    embed_one(v.tokens, v.positions, 3, row % kLength, one.data());
    EXPECT_EQ(one, Mat(x.row(row)));
  }
  // A large number has all its digits.
  for (const std::int64_t position : {std::int64_t(11 * 13), std::int64_t(214358880)}) {
    Mat one = Mat::Zero(1, kWidth);
    v.positions.add(position, false, one.data());
    v.expect_row(one, 0, v.row(position, false));
  }
}

TEST(FixedBase, EveryExampleDrawsItsStartAndOneInAHundredLosesItsDigits) {
  const Vectors v;
  EmbeddingKept kept;
  Mat x;
  constexpr int kDraws = 4000;
  constexpr std::int64_t kOffsets = FixedBase::kEnd - kLength;
  int zero = 0, lost = 0, differ = 0;
  double sum = 0;
  for (int seed = 0; seed < kDraws; ++seed) {
    Pass pass = pass_from(std::uint64_t(seed), kOffsets, 0.4f, true);
    embed(pass, v.tokens, v.positions, v.ids, kept, x);
    EXPECT_EQ(pass.streams, 2u);
    ASSERT_EQ(kept.starts.size(), std::size_t(kExamples));
    for (std::int64_t e = 0; e < kExamples; ++e) {
      const EmbeddingKept::Start& start = kept.starts[std::size_t(e)];
      zero += start.first == 0;
      lost += !start.has_digits;
      sum += double(start.first);
      differ += start.first != kept.starts[0].first;
      if (seed > 20) continue;
      for (const std::int64_t t : {std::int64_t(0), kLength - 1}) {
        v.expect_row(x, e * kLength + t, v.row(start.first + t, t == 0, start.has_digits));
      }
    }
  }
  const double n = kDraws * double(kExamples);
  EXPECT_NEAR(zero, 0.4 * n, 5 * std::sqrt(0.24 * n));
  EXPECT_NEAR(lost, 0.01 * n, 5 * std::sqrt(0.01 * n));
  EXPECT_NEAR(sum / (0.6 * n), double(kOffsets) / 2, 0.02 * double(kOffsets));
  EXPECT_GT(differ, kDraws);
}

/// Sequences that predict different tokens of one example stand at the same places.
TEST(FixedBase, StreamsOfAnExampleBeginAlike) {
  const Vectors v;
  EmbeddingKept kept;
  Mat x;
  Pass pass = pass_from(3, 1'000'000, 0, true);
  pass.examples = 4;
  const std::vector<int> ids(std::size_t(4 * kLength), 3);
  embed(pass, v.tokens, v.positions, ids, kept, x, 2);
  ASSERT_EQ(kept.starts.size(), 4u);
  EXPECT_EQ(kept.starts[0].first, kept.starts[1].first);
  EXPECT_EQ(kept.starts[2].first, kept.starts[3].first);
  EXPECT_NE(kept.starts[1].first, kept.starts[2].first);
  EXPECT_EQ(Mat(x.topRows(kLength)), Mat(x.middleRows(kLength, kLength)));
}

/// What a row is given goes to the vectors in proportion to its digits: x is linear in them.
TEST(FixedBase, GradientsAreTheSlopes) {
  Vectors v;
  EmbeddingKept kept;
  Mat x;
  Pass pass = pass_from(5, 5000, 0.3f, true);
  // With an example that has no digits among them.
  do {
    ++pass.seed;
    pass.streams = 0;
    embed(pass, v.tokens, v.positions, v.ids, kept, x);
  } while (kept.starts[0].has_digits || !kept.starts[1].has_digits || kept.starts[1].first == 0);
  const Mat up = random_mat(x.rows(), kWidth, 9);
  Mat dx = up;
  embed_backward(pass, v.tokens, v.positions, v.ids, kept, dx);
  const Mat base = x;
  float* w = v.positions.weights.values();
  for (std::int64_t i = 0; i < v.positions.weights.count(); ++i) {
    const float before = w[i];
    w[i] += 1;
    pass.streams = 0;
    embed(pass, v.tokens, v.positions, v.ids, kept, x);
    w[i] = before;
    const double slope = double((x - base).cwiseProduct(up).sum());
    EXPECT_NEAR(double(v.gradient[std::size_t(i)]), slope, 1e-3 * (1 + std::abs(slope))) << i;
  }
}

TEST(FixedBase, WhatItCannotTellApartIsRefused) {
  const Vectors v;
  EmbeddingKept kept;
  Mat x;
  std::string message = "no error";
  for (std::uint64_t seed = 1; message == "no error"; ++seed) {
    Pass pass = pass_from(seed, std::int64_t(1) << 31, 0, true);
    message = message_of([&] { embed(pass, v.tokens, v.positions, v.ids, kept, x); });
  }
  expect_mentions(message, {"7 positions from", "214358881", "fixed_base", "position_offsets"});
  ModelConfig c = config();
  c.d_model = 20;
  c.n_heads = 2;
  expect_mentions(message_of([&] { validate(c); }), {"d_model 20", "fixed_base", "8"});
  // A table needs a row for every start, digits do not.
  c = config();
  TrainConfig train;
  train.length = 16;
  train.position_offsets = 1'000'000;
  const auto fit = [&] { return message_of([&] { require_fit(train, needs_of(train), c); }); };
  EXPECT_EQ(fit(), "no error");
  c.position_encoding = PositionEncoding::table;
  expect_mentions(fit(), {"1000015 positions", "max_length"});
  c.position_encoding = PositionEncoding::fixed_base;
  train.position_offsets = FixedBase::kEnd;
  expect_mentions(fit(), {"position_offsets 214358881", "lower it"});
  train.position_offsets = 0;
  train.length = 2 * c.max_length;
  expect_mentions(fit(), {std::to_string(train.length) + " positions", "max_length"});
}

}  // namespace
}  // namespace scaling
