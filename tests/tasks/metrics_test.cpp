// Metrics of answers: by hand, by properties, and as scikit-learn and SciPy have them
// (tests/fixtures/metrics.txt).
#include "models/tasks/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/random.h"

namespace scaling {
namespace {

using Classes = std::vector<std::size_t>;
using Numbers = std::vector<double>;

Classes drawn_classes(std::size_t n, Rng& rng) {
  Classes all(n);
  for (std::size_t& one : all) one = rng.below(2);
  return all;
}

Numbers drawn_numbers(std::size_t n, std::uint32_t different, Rng& rng) {
  Numbers all(n);
  for (double& one : all) one = double(rng.below(different)) / 5;
  return all;
}

/// Three hits, a miss, a false alarm and three rejections; two, one, three and four.
TEST(Metrics, OfTwoClassesByHand) {
  const Classes truth = {1, 1, 1, 0, 0, 0, 0, 1}, told = {1, 0, 1, 1, 0, 0, 0, 1};
  EXPECT_DOUBLE_EQ(share_right(truth, told), 6.0 / 8);
  EXPECT_DOUBLE_EQ(f1_of_class_1(truth, told), 6.0 / (6 + 1 + 1));
  EXPECT_DOUBLE_EQ(matthews_correlation(truth, told), (3.0 * 3 - 1.0 * 1) / 16);
  const Classes other = {1, 1, 1, 0, 0, 0, 0, 0, 0, 0}, said = {1, 1, 0, 1, 1, 1, 0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(share_right(other, said), 6.0 / 10);
  EXPECT_DOUBLE_EQ(f1_of_class_1(other, said), 4.0 / (4 + 3 + 1));
  EXPECT_DOUBLE_EQ(matthews_correlation(other, said), (2.0 * 4 - 3.0 * 1) / std::sqrt(525.0));
}

TEST(Metrics, OfNumbersByHand) {
  // Deviations -1.5 -0.5 0.5 1.5 and -1.5 0.5 -0.5 1.5: products 4, squares 5.
  EXPECT_DOUBLE_EQ(pearson_correlation(Numbers{1, 2, 3, 4}, Numbers{1, 3, 2, 4}), 0.8);
  EXPECT_DOUBLE_EQ(spearman_correlation(Numbers{0, 2, 3, 400}, Numbers{-1, 3, 2, 4}), 0.8);
  // Ranks 1 2.5 2.5 4 and 1 2 3 4: products 4.5, squares 4.5 and 5.
  EXPECT_DOUBLE_EQ(spearman_correlation(Numbers{10, 20, 20, 40}, Numbers{1, 2, 3, 1000}),
                   4.5 / std::sqrt(4.5 * 5));
}

TEST(Metrics, WhereThereIsNothingToTell) {
  const Classes zeros(5, 0), ones(5, 1), mixed = {0, 1, 0, 0, 1};
  EXPECT_EQ(f1_of_class_1(zeros, zeros), 0);
  EXPECT_EQ(f1_of_class_1(mixed, zeros), 0);
  EXPECT_EQ(f1_of_class_1(ones, ones), 1);
  EXPECT_EQ(matthews_correlation(mixed, ones), 0);
  EXPECT_EQ(matthews_correlation(zeros, mixed), 0);
  EXPECT_EQ(share_right(Classes{}, Classes{}), 0);
  const Numbers constant(5, 0.1), rising = {1, 2, 3, 4, 5};
  EXPECT_TRUE(std::isnan(pearson_correlation(constant, rising)));
  EXPECT_TRUE(std::isnan(pearson_correlation(rising, constant)));
  EXPECT_TRUE(std::isnan(spearman_correlation(rising, constant)));
  EXPECT_TRUE(std::isnan(pearson_correlation(Numbers{}, Numbers{})));
  EXPECT_TRUE(std::isnan(pearson_correlation(Numbers{1}, Numbers{2})));
}

TEST(Metrics, KeepWhatTheirDefinitionsKeep) {
  Rng rng(1);
  for (int round = 0; round < 50; ++round) {
    const std::size_t n = 10 + rng.below(50);
    const Classes truth = drawn_classes(n, rng), told = drawn_classes(n, rng);
    EXPECT_DOUBLE_EQ(f1_of_class_1(truth, told), f1_of_class_1(told, truth));
    Classes other = told;
    for (std::size_t& one : other) one = 1 - one;
    EXPECT_NEAR(matthews_correlation(truth, other), -matthews_correlation(truth, told), 1e-12);
    EXPECT_NEAR(share_right(truth, other), 1 - share_right(truth, told), 1e-12);
    // Matthews' is Pearson's of the classes as numbers.
    const Numbers x(truth.begin(), truth.end()), y(told.begin(), told.end());
    const double pearson = pearson_correlation(x, y);
    EXPECT_NEAR(matthews_correlation(truth, told), std::isnan(pearson) ? 0 : pearson, 1e-12);

    const Numbers a = drawn_numbers(n, 26, rng), b = drawn_numbers(n, 26, rng);
    Numbers moved = b, cubed = b;
    for (double& one : moved) one = 3 * one - 7;
    for (double& one : cubed) one = one * one * one + one;
    EXPECT_NEAR(pearson_correlation(a, moved), pearson_correlation(a, b), 1e-12);
    EXPECT_DOUBLE_EQ(spearman_correlation(a, cubed), spearman_correlation(a, b));
    EXPECT_NEAR(pearson_correlation(a, a), 1, 1e-12);
    EXPECT_NEAR(spearman_correlation(a, b), spearman_correlation(b, a), 1e-12);
  }
}

/// Lines of tests/fixtures/metrics.txt: "truth ...", "told ...", then names and values.
TEST(Metrics, AreTheDefinitionsOfSciPy) {
  std::ifstream in(std::string(SOURCE_DIR) + "/tests/fixtures/metrics.txt");
  ASSERT_TRUE(in.good());
  Numbers truth, told;
  int compared = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    Numbers values;
    for (double value = 0; words >> value;) values.push_back(value);
    if (name == "truth") {
      truth = values;
      continue;
    }
    if (name == "told") {
      told = values;
      continue;
    }
    ASSERT_EQ(values.size(), 1u) << line;
    ASSERT_EQ(truth.size(), told.size());
    const Classes true_classes(truth.begin(), truth.end()), classes(told.begin(), told.end());
    const double found = name == "accuracy"   ? share_right(true_classes, classes)
                         : name == "f1"       ? f1_of_class_1(true_classes, classes)
                         : name == "matthews" ? matthews_correlation(true_classes, classes)
                         : name == "pearson"  ? pearson_correlation(truth, told)
                         : name == "spearman" ? spearman_correlation(truth, told)
                                              : std::nan("");
    EXPECT_NEAR(found, values[0], 1e-12) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 6 * 3 + 6 * 2);
}

}  // namespace
}  // namespace scaling
