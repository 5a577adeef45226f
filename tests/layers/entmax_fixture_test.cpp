// Holds alpha-entmax and its gradient to another framework's (fixtures/make_entmax_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>
#include <xtensor/xnpy.hpp>
#include <xtensor/xtensor.hpp>

#include "models/knobs.h"
#include "models/layers/attention/normaliser.h"

namespace scaling {
namespace {

using Rows = xt::xtensor<float, 2>;

const std::filesystem::path kFolder =
    std::filesystem::path(SOURCE_DIR) / "tests" / "fixtures" / "entmax";

Rows load(const std::string& name) {
  return xt::load_npy<float>((kFolder / (name + ".npy")).string());
}

struct Case {
  Normaliser kind;
  double alpha;
};

class EntmaxFixtureTest : public testing::TestWithParam<Case> {};

TEST_P(EntmaxFixtureTest, ProbabilitiesAndGradientsAreTheirs) {
  const auto& [kind, alpha] = GetParam();
  const auto normaliser = make_normaliser(kind, alpha);
  const Rows logits = load("logits"), upstream = load("upstream");
  const Rows expected = load("probabilities_" + print_value(alpha));
  const Rows gradients = load("gradients_" + print_value(alpha));
  ASSERT_EQ(logits.shape(), expected.shape());
  ASSERT_EQ(logits.shape(), upstream.shape());
  ASSERT_EQ(logits.shape(), gradients.shape());
  const std::size_t rows = logits.shape(0), n = logits.shape(1);
  ASSERT_GT(rows, 30u);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<float> p(n), s(n);
    for (std::size_t j = 0; j < n; ++j) p[j] = logits(row, j);
    const float largest = *std::max_element(p.begin(), p.end());
    for (float& z : p) z -= largest;
    std::vector<float> scratch = p;
    const float threshold = normaliser->threshold(scratch.data(), std::int64_t(n));
    normaliser->apply(threshold, p.data(), std::int64_t(n));
    normaliser->slopes(p.data(), s.data(), std::int64_t(n));
    double of_slopes = 0, of_products = 0;
    for (std::size_t j = 0; j < n; ++j) {
      of_slopes += double(s[j]);
      of_products += double(s[j]) * double(upstream(row, j));
    }
    for (std::size_t j = 0; j < n; ++j) {
      EXPECT_EQ(p[j] > 0, expected(row, j) > 0) << row << " " << j;
      EXPECT_NEAR(p[j], expected(row, j), 2e-6) << row << " " << j;
      const double gradient = double(s[j]) * (double(upstream(row, j)) - of_products / of_slopes);
      // A slope is a power of p, and where p is small its error is the larger.
      EXPECT_NEAR(gradient, double(gradients(row, j)), 1e-4) << row << " " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Alphas, EntmaxFixtureTest,
    testing::Values(Case{Normaliser::entmax, 1.25}, Case{Normaliser::entmax15, 1.5},
                    Case{Normaliser::entmax, 1.75}, Case{Normaliser::sparsemax, 2}),
    [](const auto& tested) {
      return print_value(tested.param.kind) + "_" + std::to_string(int(100 * tested.param.alpha));
    });

}  // namespace
}  // namespace scaling
