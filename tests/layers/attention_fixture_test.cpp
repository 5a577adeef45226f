// Holds Longformer, BigBird and LSH attention to those of the package transformers
// (fixtures/make_attention_fixtures.py).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <xtensor/xnpy.hpp>
#include <xtensor/xtensor.hpp>

#include "models/layers/attention/lsh.h"
#include "models/layers/attention/patterns/bigbird.h"
#include "models/layers/attention/patterns/longformer.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kHeads = 3, kHeadWidth = 8;

/// What one folder of fixtures/attention holds.
class Fixture {
 public:
  explicit Fixture(const std::string& name)
      : folder_(std::filesystem::path(SOURCE_DIR) / "tests" / "fixtures" / "attention" / name) {}

  template <class T>
  xt::xtensor<T, 2> table(const std::string& name) const {
    return xt::load_npy<T>((folder_ / (name + ".npy")).string());
  }
  Mat mat(const std::string& name) const {
    const xt::xtensor<float, 2> values = table<float>(name);
    return Eigen::Map<const Mat>(values.data(), std::int64_t(values.shape(0)),
                                 std::int64_t(values.shape(1)));
  }
  /// Of each position, 0: padding.
  std::vector<std::uint8_t> seen() const {
    const xt::xtensor<std::uint8_t, 2> values = table<std::uint8_t>("seen");
    return {values.begin(), values.end()};
  }
  /// Queries and keys from `q` and `k`.
  AttentionInput input(const std::string& q, const std::string& k) const {
    AttentionInput in(0, 0, 0);
    in.q = mat(q);
    in.k = mat(k);
    in.v = mat("v");
    in.dout = mat("dout");
    return in;
  }

 private:
  std::filesystem::path folder_;
};

/// What the packages leave at zero: nobody asks what padding sees.
void silence(Mat& o, const std::vector<std::uint8_t>& seen) {
  for (std::int64_t t = 0; t < o.rows(); ++t) {
    if (!seen[std::size_t(t)]) o.row(t).setZero();
  }
}

void set(Parameter& parameter, const Mat& values) {
  ASSERT_EQ(parameter.count(), values.size());
  std::copy(values.data(), values.data() + values.size(), parameter.values());
}

// -- Longformer -----------------------------------------------------------------------------------

TEST(AttentionFixtureTest, LongformerIsThePackages) {
  const Fixture theirs("longformer");
  const TrainedLayer<LongformerAttention> held(
      std::make_unique<LongformerAttention>(config_of_heads(
          {{"window_width", "9"}, {"longformer_global", "3"}, {"longformer_projections", "own"}})));
  for (const std::string part : {"q", "k", "v"}) {
    set(held.parameter("global_" + part), theirs.mat("global_" + part));
    set(held.parameter("global_" + part + "_bias"), theirs.mat("bias_" + part));
  }
  const std::vector<std::uint8_t> seen = theirs.seen();
  const AttentionMask mask{.causal = false, .keys = seen.data()};
  const AttentionInput in = theirs.input("q", "k");
  const Mat x = theirs.mat("x");
  Mat dx;
  AttentionResult ours = run_with_input(*held.layer, in, x, mask, dx);
  silence(ours.o, seen);
  expect_same(ours, {theirs.mat("o"), theirs.mat("dq"), theirs.mat("dk"), theirs.mat("dv")});
  expect_close(dx, theirs.mat("dx"), "dx");
  for (const std::string part : {"q", "k", "v"}) {
    expect_close(held.gradient("global_" + part), theirs.mat("dglobal_" + part), "global_" + part);
  }
  for (const std::string part : {"q", "v"}) {
    expect_close(held.gradient("global_" + part + "_bias"), theirs.mat("dbias_" + part), part);
  }
  // It moves all logits of a row alike.
  EXPECT_LT(held.gradient("global_k_bias").cwiseAbs().maxCoeff(), 1e-5f);
  EXPECT_LT(theirs.mat("dbias_k").cwiseAbs().maxCoeff(), 1e-5f);
}

// -- BigBird --------------------------------------------------------------------------------------

/// Blocks that are certain, and those that the package drew: its attention. That ours is attention
/// over its pairs, bigbird_attention_test says.
TEST(AttentionFixtureTest, BigBirdIsThePackages) {
  const Fixture theirs("big_bird");
  const std::int64_t block = 8, blocks = 12;
  const BigBird certain(block, 0, RandomBlocks::uniform, 1);
  const xt::xtensor<std::int32_t, 2> drawn = theirs.table<std::int32_t>("random_blocks");
  ASSERT_EQ(std::int64_t(drawn.shape(0)), kHeads * (blocks - 2));
  std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> pairs(kHeads);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    auto& of_head = pairs[std::size_t(head)];
    certain.for_each_pair({head, block * blocks, block * blocks, false},
                          [&](std::int64_t t, std::int64_t j) {
                            of_head.insert({t, j});
                          });
    const std::size_t known = of_head.size();
    for (std::int64_t t = block; t < block * (blocks - 1); ++t) {
      for (std::size_t i = 0; i < drawn.shape(1); ++i) {
        const std::int64_t first =
            block * drawn(std::size_t(head * (blocks - 2) + t / block - 1), i);
        for (std::int64_t j = first; j < first + block; ++j) of_head.insert({t, j});
      }
    }
    EXPECT_EQ(of_head.size(), known + std::size_t(block * (blocks - 2) * 2 * block));
  }
  const AttentionResult ours =
      define_by_rule(theirs.input("q", "k"), kHeads, {.causal = false}, 1,
                     [&](const PatternCall& call, std::int64_t t, std::int64_t j) {
                       return pairs[std::size_t(call.head)].count({t, j}) > 0;
                     });
  expect_same(ours, {theirs.mat("o"), theirs.mat("dq"), theirs.mat("dk"), theirs.mat("dv")});
}

/// The plan draws the blocks that the released generator does, as often.
TEST(AttentionFixtureTest, BigBirdsPlanIsThePackages) {
  const std::int64_t heads = 4000, random = 3;
  const BigBird plan(1, random, RandomBlocks::plan, 1);
  for (const std::int64_t blocks : {12, 16, 40}) {
    const xt::xtensor<std::int32_t, 2> theirs =
        Fixture("big_bird").table<std::int32_t>("plan_" + std::to_string(blocks));
    ASSERT_EQ(std::int64_t(theirs.shape(0)), blocks - 2);
    Mat ours = Mat::Zero(blocks, blocks);
    for (std::int64_t head = 0; head < heads; ++head) {
      plan.for_each_pair({head, blocks, blocks, false},
                         [&](std::int64_t t, std::int64_t j) { ours(t, j) += 1; });
    }
    for (std::int64_t row = 1; row < blocks - 1; ++row) {
      for (std::int64_t block = 1; block < blocks - 1; ++block) {
        if (std::abs(block - row) <= 1) continue;  // seen by all
        SCOPED_TRACE(std::to_string(row) + " sees " + std::to_string(block) + " of " +
                     std::to_string(blocks));
        const double share = double(theirs(std::size_t(row - 1), std::size_t(block))) / heads;
        EXPECT_EQ(ours(row, block) > 0, share > 0);
        EXPECT_NEAR(ours(row, block) / double(heads), share,
                    5 * std::sqrt(share * (1 - share) * 2 / heads));
      }
    }
  }
}

// -- LSH ------------------------------------------------------------------------------------------

struct Hashed {
  std::string folder;
  LshHashing hashing;
  bool causal;
};

class LshFixtureTest : public testing::TestWithParam<Hashed> {};

constexpr std::int64_t kRounds = 4;

/// With the buckets of the package.
TEST_P(LshFixtureTest, AttentionIsThePackages) {
  const Fixture theirs(GetParam().folder);
  const LshAttention layer(
      config_of_heads({{"lsh_chunk", "8"},
                       {"lsh_rounds", std::to_string(kRounds)},
                       {"lsh_buckets", std::to_string(GetParam().hashing.buckets())}}));
  const xt::xtensor<std::int32_t, 2> buckets = theirs.table<std::int32_t>("buckets");
  const std::vector<std::uint8_t> seen = theirs.seen();
  const AttentionMask mask{.causal = GetParam().causal, .keys = seen.data()};
  const AttentionInput in = theirs.input("qk", "qk");
  LshAttention::Kept kept;
  kept.chosen.assign(buckets.begin(), buckets.end());
  Pass pass = evaluation_pass();
  pass.recomputes = true;  // so that it takes the buckets that are there
  AttentionResult ours;
  layer.forward(pass, in.q, in.k, in.v, mask, kept, ours.o);
  layer.backward(pass, in.q, in.k, in.v, mask, kept, in.dout, ours.dq, ours.dk, ours.dv);
  silence(ours.o, seen);
  expect_close(ours.o, theirs.mat("o"), "o");
  expect_close(ours.dq + ours.dk, theirs.mat("dqk"), "dqk");
  expect_close(ours.dv, theirs.mat("dv"), "dv");
}

/// By the rotations of the package.
TEST_P(LshFixtureTest, BucketsAreThePackages) {
  const Fixture theirs(GetParam().folder);
  const LshHashing& hashing = GetParam().hashing;
  const Mat qk = theirs.mat("qk"), rotations = theirs.mat("rotations");
  const xt::xtensor<std::int32_t, 2> buckets = theirs.table<std::int32_t>("buckets");
  const std::vector<std::uint8_t> seen = theirs.seen();
  ASSERT_EQ(rotations.cols(), kRounds * hashing.columns());
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const Mat rotated = qk.middleCols(head * kHeadWidth, kHeadWidth) *
                        rotations.middleRows(head * kHeadWidth, kHeadWidth);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      for (std::int64_t t = 0; t < qk.rows(); ++t) {
        const std::int64_t expected =
            seen[std::size_t(t)] ? bucket_of(hashing, &rotated(t, round * hashing.columns()))
                                 : hashing.buckets();
        EXPECT_EQ(buckets(std::size_t(head * kRounds + round), std::size_t(t)), expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Packages, LshFixtureTest,
                         testing::Values(Hashed{"reformer", {8, 1}, false},
                                         Hashed{"reformer_causal", {8, 1}, true},
                                         Hashed{"reformer_two_hashes", {8, 4}, true}),
                         [](const auto& param) { return param.param.folder; });

}  // namespace
}  // namespace scaling
