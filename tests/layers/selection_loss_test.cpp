// Terms of the loss for selections against their definition in double precision.
#include "models/layers/parts/selection_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/layers/layer_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using MatD = Eigen::MatrixXd;

constexpr Blocks kShape{3, 5};
constexpr std::int64_t kRows = 7;

MatD softmax_of(const MatD& z) {
  MatD p = z.array().exp();
  for (std::int64_t t = 0; t < p.rows(); ++t) {
    for (std::int64_t b = 0; b < kShape.blocks; ++b) {
      p.row(t).segment(b * kShape.n, kShape.n) /= p.row(t).segment(b * kShape.n, kShape.n).sum();
    }
  }
  return p;
}

/// As the header says it, entry by entry, of all positions.
double defined(const SelectionLoss& loss, const std::vector<std::int32_t>& chosen, const MatD& p) {
  double balance = 0, entropy = 0;
  for (std::int64_t b = 0; b < kShape.blocks; ++b) {
    for (std::int64_t j = 0; j < kShape.n; ++j) {
      double choose = 0, mean = 0;
      for (std::int64_t t = 0; t < kRows; ++t) {
        const double of_entry = p(t, b * kShape.n + j);
        choose += chosen[std::size_t(t * kShape.blocks + b)] == j;
        mean += of_entry / kRows;
        entropy -= of_entry * std::log(of_entry);
      }
      balance += double(kShape.n) * choose / kRows * mean;
    }
  }
  const double blocks = double(kShape.blocks);
  return (kRows * loss.balance * balance + loss.entropy * entropy) / blocks;
}

struct Selections {
  Mat z = 2 * random_mat(kRows, kShape.size(), 5);
  std::vector<std::int32_t> chosen;
  Selections() {
    for (std::int64_t t = 0; t < kRows; ++t) {
      for (std::int64_t b = 0; b < kShape.blocks; ++b) {
        std::int64_t k = 0;
        z.row(t).segment(b * kShape.n, kShape.n).maxCoeff(&k);
        chosen.push_back(std::int32_t(k));
      }
    }
  }
};

const std::vector<SelectionLoss>& losses() {
  static const std::vector<SelectionLoss> all = {{0.3, 0}, {0, 0.7}, {0, -0.2}, {0.1, 0.4}};
  return all;
}

TEST(SelectionLoss, IsWhatItsHeaderSays) {
  const Selections some;
  const MatD p = softmax_of(some.z.cast<double>());
  for (const SelectionLoss& loss : losses()) {
    Pass pass = training_pass();
    Floats shares;
    loss.forward(pass, kShape, some.chosen, p.cast<float>(), shares);
    EXPECT_NEAR(pass.extra_loss, defined(loss, some.chosen, p), 1e-5);
  }
}

TEST(SelectionLoss, OfEvenSelectionsIsOneAPosition) {
  const Mat p = Mat::Constant(10, 5, 0.2f);
  const std::vector<std::int32_t> chosen = {0, 1, 2, 3, 4, 4, 3, 2, 1, 0};
  Pass pass = training_pass();
  Floats shares;
  SelectionLoss{1, 0}.forward(pass, {1, 5}, chosen, p, shares);
  EXPECT_NEAR(pass.extra_loss, 10, 1e-5);
  pass.extra_loss = 0;
  SelectionLoss{0, 1}.forward(pass, {1, 5}, chosen, p, shares);
  EXPECT_NEAR(pass.extra_loss, 10 * std::log(5.0), 1e-5);
}

TEST(SelectionLoss, BackwardAddsTheSlopeOfTheLogits) {
  const Selections some;
  const MatD z = some.z.cast<double>();
  for (const SelectionLoss& loss : losses()) {
    Pass pass = training_pass();
    pass.loss_scale = 0.5f;
    Floats shares;
    const Mat p = softmax_of(z).cast<float>();
    loss.forward(pass, kShape, some.chosen, p, shares);
    Mat dz = Mat::Constant(kRows, kShape.size(), 3);
    loss.backward(pass, kShape, p, shares, dz);
    for (std::int64_t i = 0; i < z.size(); ++i) {
      constexpr double kStep = 1e-5;
      MatD plus = z, minus = z;
      plus.data()[i] += kStep;
      minus.data()[i] -= kStep;
      const double slope = (defined(loss, some.chosen, softmax_of(plus)) -
                            defined(loss, some.chosen, softmax_of(minus))) /
                           (2 * kStep);
      const std::int64_t t = i % kRows, j = i / kRows;  // z is column-major
      EXPECT_NEAR(dz(t, j), 3 + 0.5 * slope, 1e-5) << t << ", " << j;
    }
  }
}

TEST(SelectionLoss, IsAddedOnceAndNotIfItHasNoWeight) {
  const Selections some;
  const Mat p = softmax_of(some.z.cast<double>()).cast<float>();
  Pass pass = training_pass();
  Floats shares;
  const SelectionLoss loss{0.3, 0.1};
  loss.forward(pass, kShape, some.chosen, p, shares);
  const double once = pass.extra_loss;
  EXPECT_GT(once, 0);
  pass.recomputes = true;
  loss.forward(pass, kShape, some.chosen, p, shares);
  EXPECT_EQ(pass.extra_loss, once);
  SelectionLoss{}.forward(pass, kShape, some.chosen, p, shares);
  EXPECT_EQ(pass.extra_loss, once);
}

/// What the loss adds to the gradients of whatever makes the logits.
TEST(SelectionLoss, ReachesWhatSelects) {
  for (const char* name : {"sparse", "moe_block", "moe_switch"}) {
    for (const char* hard : {"0", "1"}) {
      ModelConfig config = small_config();
      set_field(config, "hard_probability", hard);
      const std::string selector = std::string(name) == "sparse" ? "controller_bias" : "router";
      const auto gradient_of = [&](const char* balance, const char* entropy, double& extra) {
        set_field(config, "selection_balance", balance);
        set_field(config, "selection_entropy", entropy);
        const TrainedLayer<FeedForward> held(make_feed_forward(name, config));
        Pass pass = training_pass();
        pass.loss_scale = 0.5f;
        const Mat x = random_mat(6, config.d_model, 3), dy = random_mat(6, config.d_model, 4);
        const auto kept = held.layer->make_activations();
        Mat y, dx;
        held.layer->forward(pass, x, *kept, y);
        held.layer->backward(pass, x, *kept, dy, dx);
        extra = pass.extra_loss;
        return held.gradient(selector);
      };
      double none = 0, balance = 0, both = 0;
      const Mat plain = gradient_of("0", "0", none);
      const Mat balanced = gradient_of("0.5", "0", balance);
      const Mat twice = gradient_of("1", "0", both);
      EXPECT_EQ(none, 0) << name;
      EXPECT_GT(balance, 0) << name;
      EXPECT_GT((balanced - plain).norm(), 0) << name << hard;
      EXPECT_LT((twice - plain - 2 * (balanced - plain)).norm(),
                1e-4 * (twice - plain).norm() + 1e-6)
          << name << hard;
      EXPECT_GT((gradient_of("0", "0.5", both) - plain).norm(), 0) << name << hard;
    }
  }
}

}  // namespace
}  // namespace scaling
