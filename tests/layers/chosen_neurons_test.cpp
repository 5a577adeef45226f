// One neuron a block against products with all neurons and a mask, over more blocks and positions
// than are worked on at once.
#include "models/layers/feed_forward/chosen_neurons.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/layers/layer_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using MatD = Eigen::MatrixXd;

constexpr std::int64_t kWidth = 21, kPositions = 300;
constexpr Blocks kShape{75, 3};

/// w1, b1 and w2 as a feed-forward holds them.
struct Weights {
  Parameter w1 = Parameter::make_matrix("w1", kShape.size(), kWidth, Layout::rows,
                                        glorot_uniform(kWidth, kShape.size()));
  Parameter b1 = Parameter::make_vector("b1", kShape.size(), {});
  Parameter w2 = Parameter::make_matrix("w2", kShape.size(), kWidth, Layout::rows,
                                        glorot_uniform(kShape.size(), kWidth));
  void visit_parameters(const ParameterVisitor& visit) {
    visit(w1);
    visit(b1);
    visit(w2);
  }
};

class ChosenNeuronsTest : public testing::TestWithParam<bool> {
 protected:
  ChosenNeuronsTest() {
    Rng rng(5);
    for (std::int32_t& k : chosen_) k = std::int32_t(rng.below(std::uint32_t(kShape.n)));
    x_.row(7).setZero();  // a position of which no neuron is active, without a bias
    neurons_.forward(x_, h_, y_);
    neurons_.backward(x_, h_, dy_, du_, dx_);
  }

  /// (positions, d_ff): 1 where a neuron is chosen.
  MatD mask() const {
    MatD all = MatD::Zero(kPositions, kShape.size());
    for (std::int64_t t = 0; t < kPositions; ++t) {
      for (std::int64_t b = 0; b < kShape.blocks; ++b) {
        all(t, b * kShape.n + chosen_[std::size_t(t * kShape.blocks + b)]) = 1;
      }
    }
    return all;
  }

  const bool has_bias_ = GetParam();
  const TrainedLayer<Weights> held_{std::make_unique<Weights>()};
  Mat x_ = random_mat(kPositions, kWidth, 1);
  const Mat dy_ = random_mat(kPositions, kWidth, 2);
  std::vector<std::int32_t> chosen_ =
      std::vector<std::int32_t>(std::size_t(kPositions * kShape.blocks));
  const ChosenNeurons neurons_{kShape, chosen_.data(), held_.layer->w1,
                               has_bias_ ? &held_.layer->b1 : nullptr, held_.layer->w2};
  Mat h_, y_, du_, dx_;
};

TEST_P(ChosenNeuronsTest, AreThoseOfAMask) {
  const MatD x = x_.cast<double>(), dy = dy_.cast<double>(), m = mask();
  const MatD w1 = held_.layer->w1.matrix().cast<double>();
  const MatD w2 = held_.layer->w2.matrix().cast<double>();
  MatD u = x * w1.transpose();
  if (has_bias_) {
    u.rowwise() += held_.layer->b1.matrix().cast<double>().row(0);
  }
  const MatD h = u.cwiseMax(0).cwiseProduct(m);
  const MatD du = (h.array() > 0).select(dy * w2.transpose(), 0.0);
  expect_close(y_, (h * w2).cast<float>(), "y");
  expect_close(dx_, (du * w1).cast<float>(), "dx");
  expect_close(held_.gradient("w1"), (du.transpose() * x).cast<float>(), "w1");
  expect_close(held_.gradient("w2"), (h.transpose() * dy).cast<float>(), "w2");
  if (has_bias_) {
    expect_close(held_.gradient("b1"), du.colwise().sum().cast<float>(), "b1");
  } else {
    EXPECT_EQ(held_.gradient("b1").norm(), 0);
    EXPECT_EQ(y_.row(7).norm(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Bias, ChosenNeuronsTest, testing::Bool());

}  // namespace
}  // namespace scaling
