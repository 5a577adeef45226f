// Sparsemax, 1.5-entmax and alpha-entmax: tables, what is refused, and attention with any of them
// against attention as it is defined. Rows by themselves: tests/kernels/entmax_test.cpp.
#include "models/layers/attention/normaliser.h"

#include "models/layers/attention/full.h"
#include "models/layers/catalog.h"
#include "tests/layers/attention_definition.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

std::vector<float> probabilities(Normaliser kind, std::vector<float> z, double alpha = 1.5) {
  const auto normaliser = make_normaliser(kind, alpha);
  const float largest = *std::max_element(z.begin(), z.end());
  for (float& x : z) x -= largest;
  std::vector<float> sorted = z;
  const float threshold = normaliser->threshold(sorted.data(), std::int64_t(sorted.size()));
  normaliser->apply(threshold, z.data(), std::int64_t(z.size()));
  return z;
}

void expect_near(const std::vector<float>& ours, const std::vector<float>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], 1e-4) << i;
}

TEST(NormaliserTest, TablesAreMet) {
  expect_near(probabilities(Normaliser::entmax15, {1, 0.5f, 0, -1}),
              {0.624198f, 0.291667f, 0.084136f, 0});
  expect_near(probabilities(Normaliser::entmax15, {1.3f, 20, 19.5f, 1}), {0, 0.6740f, 0.3260f, 0});
  expect_near(probabilities(Normaliser::sparsemax, {1, 0.5f, 0, -1}), {0.75f, 0.25f, 0, 0});
  expect_near(probabilities(Normaliser::sparsemax, {3, 3, 3}), {1 / 3.0f, 1 / 3.0f, 1 / 3.0f});
  expect_near(probabilities(Normaliser::entmax, {1, 0.5f, 0, -1}, 1.5),
              {0.624198f, 0.291667f, 0.084136f, 0});
  expect_near(probabilities(Normaliser::entmax, {1, 0.5f, 0, -1}, 2), {0.75f, 0.25f, 0, 0});
  EXPECT_EQ(make_normaliser(Normaliser::softmax, 1.5), nullptr);
}

TEST(NormaliserTest, AnAlphaOfAtMostOneIsRefused) {
  for (const double alpha : {1.0, 0.5, -2.0}) {
    ModelConfig c = config_of_shape("tiny");
    set_field(c, "entmax_alpha", alpha);
    validate(c);  // softmax does not ask
    set_field(c, "normaliser", "entmax");
    try {
      validate(c);
      ADD_FAILURE() << alpha;
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("entmax_alpha " + print_value(alpha)), std::string::npos) << message;
      EXPECT_NE(message.find("normaliser=softmax"), std::string::npos) << message;
    }
    EXPECT_THROW(FullAttention{c}, UserError);
  }
}

TEST(NormaliserTest, EveryAttentionWithAPatternRefusesIt) {
  int refused = 0;
  for (const EntryInfo& entry : entries_of("attention")) {
    ModelConfig c = config_of_shape("tiny");
    set_field(c, "attention", entry.name);
    const bool has_pattern =
        std::string("lsh routing performer linformer").find(entry.name) == std::string::npos &&
        entry.traits.step != StepIs::none;
    set_field(c, "normaliser", "entmax");
    set_field(c, "entmax_alpha", "1");
    if (!has_pattern) continue;
    SCOPED_TRACE(entry.name);
    EXPECT_THROW(validate(c), UserError);
    set_field(c, "entmax_alpha", "1.7");
    EXPECT_NO_THROW(validate(c));
    ++refused;
  }
  EXPECT_GE(refused, 7);
}

struct Case {
  Normaliser kind;
  double alpha;
  /// Between 1.5 and 2 a slope is a root of what a logit exceeds the threshold by: where that is
  /// next to nothing, the rounding of a logit shows.
  bool is_steep = false;
};

class NormaliserTest : public testing::TestWithParam<Case> {
 protected:
  static ModelConfig config() {
    ModelConfig c;
    c.d_model = 24;
    c.n_heads = 3;
    return c;
  }
  static ModelConfig with_normaliser() {
    ModelConfig c = config();
    set_field(c, "normaliser", print_value(GetParam().kind));
    set_field(c, "entmax_alpha", GetParam().alpha);
    return c;
  }
  const FullAttention layer_{with_normaliser()};
};

TEST_P(NormaliserTest, RowsAreTheDefinition) {
  for (const std::int64_t n : {1, 5, 300}) {
    for (const float spread : {0.01f, 1.0f, 6.0f}) {
      const Mat z = random_mat(1, n, std::uint64_t(n)) * spread;
      const Eigen::VectorXd expected =
          normalised(z.row(0).cast<double>().transpose(), GetParam().alpha);
      const std::vector<float> ours =
          probabilities(GetParam().kind, {z.data(), z.data() + n}, GetParam().alpha);
      for (std::int64_t i = 0; i < n; ++i) EXPECT_NEAR(ours[std::size_t(i)], expected[i], 1e-5);
    }
  }
}

TEST_P(NormaliserTest, TilesAreTheDefinition) {
  for (const std::int64_t length : {2, 65, 530}) {
    for (const bool causal : {false, true}) {
      for (const bool is_padded : {false, true}) {
        if (is_padded && length < 10) continue;
        SCOPED_TRACE(std::to_string(length) + (causal ? " causal" : "") +
                     (is_padded ? " padded" : ""));
        std::vector<std::uint8_t> seen(std::size_t(length), 1);
        for (std::int64_t j = 0; is_padded && j < length; ++j) {
          seen[std::size_t(j)] = j >= (length > 514 ? 514 : 2) && j % 5 != 3;
        }
        const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
        AttentionInput in(length, length, config().d_model);
        in.q *= 3;
        const AttentionResult ours = run_attention(layer_, training_pass(), in, mask);
        const AttentionResult expected =
            define_attention(in, config().n_heads, mask, GetParam().alpha);
        if (!GetParam().is_steep) {
          expect_same(ours, expected);
          continue;
        }
        expect_close(ours.o, expected.o, "o");
        expect_close(ours.dv, expected.dv, "dv");
        EXPECT_LT((ours.dq - expected.dq).norm(), 1e-4f * expected.dq.norm());
        EXPECT_LT((ours.dk - expected.dk).norm(), 1e-4f * expected.dk.norm());
      }
    }
  }
}

TEST_P(NormaliserTest, StepIsForward) {
  const AttentionInput in(90, 90, config().d_model);
  expect_close(decode_attention(layer_, in), layer_.forward(in.q, in.k, in.v, true), "o");
}

/// o is linear in v whatever is dropped, if backward drops the same.
TEST_P(NormaliserTest, DropoutIsRepeatedInBackward) {
  const AttentionInput in(600, 600, config().d_model);
  Pass pass = training_pass();
  const Mat whole = run_attention(layer_, pass, in, {.causal = true}).o;
  pass.dropout = 0.3f;
  const AttentionResult dropped = run_attention(layer_, pass, in, {.causal = true});
  EXPECT_GT((dropped.o - whole).norm(), 0.1f * whole.norm());
  const double left = in.dout.cast<double>().cwiseProduct(dropped.o.cast<double>()).sum();
  const double right = dropped.dv.cast<double>().cwiseProduct(in.v.cast<double>()).sum();
  EXPECT_NEAR(left, right, 1e-5 * double(dropped.dv.norm()) * double(in.v.norm()));
}

INSTANTIATE_TEST_SUITE_P(
    Names, NormaliserTest,
    testing::Values(Case{Normaliser::sparsemax, 2}, Case{Normaliser::entmax15, 1.5},
                    Case{Normaliser::entmax, 1.25}, Case{Normaliser::entmax, 1.75, true}),
    [](const auto& tested) {
      return print_value(tested.param.kind) + "_" + std::to_string(int(100 * tested.param.alpha));
    });

}  // namespace
}  // namespace scaling
