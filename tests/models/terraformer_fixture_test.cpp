// Holds evaluation and decoding of reversible and concatenated models to an independent framework
// (fixtures/make_training_fixtures.py); gradient_fixture_test holds their training to it.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "models/transformer/decoder.h"
#include "tests/training/training_fixture.h"

namespace scaling {
namespace {

/// Share of the largest logit.
constexpr double kTolerance = 2e-5;

/// Those of whole models that say what evaluation must give.
std::vector<std::string> evaluated_names() {
  std::vector<std::string> names;
  for (const std::string& name : fixtures_with("model_")) {
    if (load_fixture(name).has("logits")) names.push_back(name);
  }
  return names;
}

class TerraformerFixtureTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    fixture_ = load_fixture(GetParam());
    model_ = std::make_unique<Transformer>(fixture_.config);
    model_->allocate(team_);
    set_parameters(fixture_, model_->parameters());
    if (HasFailure()) GTEST_SKIP() << GetParam() << ": weights do not match, nothing to compare";
  }

  /// Examples of the first batch.
  std::int64_t examples() const {
    return fixture_.at("logits").rows() / fixture_.at("target").cols();
  }
  std::vector<int> ids(const std::string& array, std::int64_t example) const {
    if (!fixture_.has(array)) return {};
    const Mat& all = fixture_.at(array);
    std::vector<int> row;
    for (std::int64_t t = 0; t < all.cols(); ++t) row.push_back(int(all(example, t)));
    return row;
  }
  Mat logits(std::int64_t example) const {
    const std::int64_t length = fixture_.at("target").cols();
    return fixture_.at("logits").middleRows(example * length, length);
  }

  Fixture fixture_;
  Team team_{2};
  std::unique_ptr<Transformer> model_;
};

TEST_P(TerraformerFixtureTest, Forward) {
  ASSERT_EQ(examples(), 2);
  for (std::int64_t e = 0; e < examples(); ++e) {
    expect_within(model_->forward(ids("source", e), ids("target", e)), logits(e), kTolerance,
                  GetParam() + " example " + std::to_string(e));
  }
}

TEST_P(TerraformerFixtureTest, Decode) {
  for (std::int64_t e = 0; e < examples(); ++e) {
    const std::vector<int> source = ids("source", e), target = ids("target", e);
    const Mat expected = logits(e);
    Decoder decoder(*model_, find_kernel_set("simd"), team_, 1, std::int64_t(target.size()),
                    std::int64_t(source.size()));
    decoder.begin(source);
    Mat ours(expected.rows(), expected.cols());
    std::vector<int> next;
    for (std::size_t t = 0; t < target.size(); ++t) {
      decoder.step({t == 0 ? 0 : target[t - 1]}, next);
      ours.row(std::int64_t(t)) =
          Eigen::Map<const Eigen::RowVectorXf>(decoder.logits().data(), expected.cols());
    }
    expect_within(ours, expected, kTolerance, GetParam() + " example " + std::to_string(e));
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TerraformerFixtureTest, testing::ValuesIn(evaluated_names()),
                         [](const auto& test) { return test.param; });

/// A checkout without fixtures must not pass in silence, and every choice of a stack has a fixture.
TEST(TerraformerFixtures, CoverEveryStack) {
  std::set<std::string> covered;
  for (const std::string& name : evaluated_names()) {
    const ModelConfig c = load_fixture(name).config;
    for (const char* knob : {"residual_stack", "attention_layers", "encoder_swaps"}) {
      covered.insert(std::string(knob) + "=" + get_field(c, knob));
    }
    covered.insert("source=" + (c.decoder_only() ? "none" : get_field(c, "source")));
  }
  for (const char* needed :
       {"residual_stack=plain", "residual_stack=reversible", "attention_layers=2",
        "encoder_swaps=1", "encoder_swaps=2", "source=none", "source=cross_attention",
        "source=concatenated", "source=concatenated_streams"}) {
    EXPECT_TRUE(covered.count(needed)) << "no fixture has " << needed;
  }
}

}  // namespace
}  // namespace scaling
