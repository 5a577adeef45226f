// Shares of singular values against a decomposition, weights against the attention itself.
#include "models/sparsefinder/spectrum.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <vector>

#include "kernels/random.h"
#include "models/knobs.h"
#include "models/layers/attention/pattern_attention.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

Mat drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Mat m(rows, cols);
  Rng random(seed, 1);
  for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = random.uniform(-1, 1);
  return m;
}

TEST(SingularShares, AreThoseOfADecomposition) {
  const Mat m = drawn(17, 17, 3);
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(m.cast<double>());
  const std::vector<double> shares = singular_shares(m);
  ASSERT_EQ(shares.size(), 17u);
  double sum = 0;
  for (std::size_t i = 0; i < 17; ++i) {
    sum += svd.singularValues()(std::int64_t(i));
    EXPECT_NEAR(shares[i], sum / svd.singularValues().sum(), 1e-9) << i;
  }
}

TEST(SingularShares, OfRanksThatAreKnown) {
  const std::vector<double> identity = singular_shares(Mat::Identity(8, 8));
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(identity[i], double(i + 1) / 8, 1e-12);
  EXPECT_EQ(rank_of_share(identity, 0.5), 4);
  EXPECT_EQ(rank_of_share(identity, 0.51), 5);
  const Mat outer = drawn(30, 1, 5) * drawn(1, 30, 6);
  EXPECT_NEAR(singular_shares(outer).front(), 1, 1e-5);
  EXPECT_EQ(rank_of_share(singular_shares(outer), 0.9), 1);
}

/// A head's outputs over values that are unit vectors are its weights.
TEST(HeadWeights, AreWhatTheAttentionGives) {
  for (const char* normaliser : {"softmax", "entmax15", "sparsemax"}) {
    for (const bool causal : {true, false}) {
      ModelConfig model;
      for (const auto& [knob, value] : Settings{{"d_model", "24"},
                                                {"n_heads", "2"},
                                                {"attention", "full"},
                                                {"normaliser", normaliser}}) {
        set_field(model, knob, value);
      }
      const std::int64_t n = 12, d = 12;
      const Mat q = 3 * drawn(n, 24, 7), k = 3 * drawn(n, 24, 8);
      Mat v = Mat::Zero(n, 24);
      for (std::int64_t i = 0; i < n; ++i) v(i, i) = v(i, d + i) = 1;
      const auto attention = make_self_attention(model);
      const Mat o = attention->forward(q, k, v, causal);
      const auto knobs = model.options<PatternKnobs>();
      const auto sparse = make_normaliser(knobs.normaliser, knobs.entmax_alpha);
      for (std::int64_t head = 0; head < 2; ++head) {
        const Mat weights = head_weights(q.middleCols(head * d, d), k.middleCols(head * d, d),
                                         causal, sparse.get());
        const double apart = double((weights - o.middleCols(head * d, d)).cwiseAbs().maxCoeff());
        EXPECT_LT(apart, 1e-5) << normaliser << ", causal " << causal;
      }
    }
  }
}

}  // namespace
}  // namespace scaling
