// Adafactor and Adam against plain loops in double over logical indices; schedules against the
// reference's numbers.
#include "models/training/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/random.h"
#include "kernels/team.h"
#include "models/knobs.h"

namespace scaling {
namespace {

/// A parameter that owns its weights and gradient.
struct Tensor {
  Tensor(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::int64_t rows,
         std::int64_t cols, float scale = 1)
      : parameter(Parameter::make_matrix("w", rows, cols, Layout::rows, {}, std::move(shape),
                                         std::move(strides))),
        weights(std::size_t(rows * cols)),
        gradient(weights.size()) {
    Rng rng(3);
    for (float& w : weights) w = scale * rng.uniform(-1, 1);
    parameter.data = weights.data();
    parameter.gradient = gradient.data();
  }
  Tensor(const Tensor&) = delete;

  void draw_gradient(std::int64_t step, float scale) {
    Rng rng(4, std::uint64_t(step));
    // Rows and columns of different sizes, or there would be nothing to factor.
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = scale * rng.uniform(-1, 1) * float(1 + i % 7) * float(1 + i / 5 % 3);
    }
  }
  /// Where each logical element, the last axis fastest, is stored.
  std::vector<std::size_t> places() const {
    const auto& shape = parameter.shape;
    std::vector<std::size_t> all(weights.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t left = i;
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        all[i] += left % std::size_t(shape[axis]) * std::size_t(parameter.strides[axis]);
        left /= std::size_t(shape[axis]);
      }
    }
    return all;
  }

  Parameter parameter;
  std::vector<float> weights, gradient;
};

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum / double(values.size()));
}

/// The reference's rule, line by line.
struct PlainAdafactor {
  explicit PlainAdafactor(const Tensor& t) : places(t.places()), shape(t.parameter.shape) {
    for (const std::size_t at : places) w.push_back(double(t.weights[at]));
    const std::size_t rank = shape.size(), n = w.size();
    if (rank >= 2) {
      b = std::size_t(shape[rank - 1]);
      a = std::size_t(shape[rank - 2]);
      r.assign(n / b, 0);
      c.assign(n / a, 0);
    }
    v.assign(n, 0);
  }

  void update(const Tensor& t, std::int64_t step, double lr, double wd) {
    const double rho = 1 - std::pow(double(step) + 1, -0.8), eps1 = 1e-16, eps2 = 1e-3;
    std::vector<double> g, y(w.size());
    for (const std::size_t at : places) g.push_back(double(t.gradient[at]));
    if (shape.size() < 2) {
      for (std::size_t i = 0; i < w.size(); ++i) {
        v[i] = rho * v[i] + (1 - rho) * g[i] * g[i];
        y[i] = g[i] / std::sqrt(v[i] + eps1);
      }
    } else {
      for (std::size_t lead = 0; lead < w.size() / (a * b); ++lead) {
        const double* gl = g.data() + lead * a * b;
        double *rl = r.data() + lead * a, *cl = c.data() + lead * b, mean_r = 0;
        for (std::size_t i = 0; i < a; ++i) {
          double sum = 0;
          for (std::size_t j = 0; j < b; ++j) sum += gl[i * b + j] * gl[i * b + j];
          rl[i] = rho * rl[i] + (1 - rho) * sum / double(b);
          mean_r += rl[i] / double(a);
        }
        for (std::size_t j = 0; j < b; ++j) {
          double sum = 0;
          for (std::size_t i = 0; i < a; ++i) sum += gl[i * b + j] * gl[i * b + j];
          cl[j] = rho * cl[j] + (1 - rho) * sum / double(a);
        }
        for (std::size_t i = 0; i < a; ++i) {
          for (std::size_t j = 0; j < b; ++j) {
            y[lead * a * b + i * b + j] =
                gl[i * b + j] * std::sqrt(mean_r / (rl[i] + eps1)) / std::sqrt(cl[j] + eps1);
          }
        }
      }
    }
    const double clip = std::max(1.0, rms(y)), size = std::max(rms(w), eps2);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = (1 - wd) * w[i] - lr * size * y[i] / clip;
  }

  std::vector<std::size_t> places;
  std::vector<std::int64_t> shape;
  std::size_t a = 0, b = 0;
  std::vector<double> w, r, c, v;
};

void expect_same_weights(const Tensor& t, const std::vector<std::size_t>& places,
                         const std::vector<double>& expected, const std::string& what) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(double(t.weights[places[i]]) - expected[i]));
  }
  EXPECT_GT(largest, 0) << what;
  EXPECT_LE(difference, 1e-5 * largest) << what;
}

struct Shape {
  const char* what;
  std::vector<std::int64_t> shape, strides;
  std::int64_t rows, cols;
  std::size_t state;  // floats of the optimiser
};

/// Widths beyond a strip of 64 and no multiple of it or of a vector.
const std::vector<Shape>& tensors() {
  static const std::vector<Shape> all = {
      {"vector", {77}, {1}, 1, 77, 77},
      {"long vector", {9000}, {1}, 1, 9000, 9000},
      {"matrix", {5, 150}, {150, 1}, 5, 150, 155},
      {"matrix stored transposed", {150, 5}, {1, 150}, 5, 150, 155},
      {"large matrix", {300, 200}, {200, 1}, 300, 200, 500},
      {"bias of two axes", {6, 8}, {8, 1}, 1, 48, 14},
      {"one column", {70, 1}, {1, 1}, 70, 1, 71},
      {"one row", {1, 70}, {70, 1}, 1, 70, 71},
      {"one number", {1, 1}, {1, 1}, 1, 1, 2},
      // (d, nb, N) and (N, nb, d) of the sparse feed-forward, stored one row a neuron.
      {"sparse w1", {70, 3, 4}, {1, 4 * 70, 70}, 12, 70, 70 * 3 + 70 * 4},
      {"sparse w2", {4, 3, 70}, {70, 4 * 70, 1}, 12, 70, 4 * 3 + 4 * 70},
      {"modules", {4, 30}, {1, 4}, 30, 4, 34},
      {"first axis between", {3, 70, 5}, {70, 1, 3 * 70}, 15, 70, 3 * 70 + 3 * 5},
      {"convolution", {3, 2, 9, 11}, {2 * 9 * 11, 9 * 11, 11, 1}, 54, 11, 6 * 9 + 6 * 11},
      {"convolution stored otherwise", {3, 2, 9, 11}, {1, 3, 6, 54}, 99, 6, 6 * 9 + 6 * 11},
      {"second axis innermost",
       {3, 68, 2, 5},
       {68 * 10, 1, 68, 68 * 2},
       30,
       68,
       3 * 68 * 2 + 3 * 68 * 5},
  };
  return all;
}

TEST(AdafactorTest, IsTheReferencesRuleForEveryOrderOfStorage) {
  TrainConfig config;
  config.weight_decay = 0.01;
  config.weight_decay_steps = 4;
  for (const Shape& s : tensors()) {
    // Gradients of the second scale are clipped no more after the first steps; weights of 1e-5 meet
    // the least scale of updates.
    for (const float scale : {1.0f, 1e-5f}) {
      Tensor t(s.shape, s.strides, s.rows, s.cols, scale);
      PlainAdafactor plain(t);
      const auto optimizer = make_optimizer(config, {&t.parameter});
      std::size_t state = 0;
      for (const Optimizer::Slot& slot : optimizer->slots()) state += slot.values->size();
      EXPECT_EQ(state, s.state) << s.what;
      for (std::int64_t step = 1; step <= 6; ++step) {
        t.draw_gradient(step, step < 4 ? 1e-2f : 1e-4f);
        const double wd = 0.01 * double(std::max<std::int64_t>(4 - step, 0)) / 4;
        optimizer->update(step, 0.1);
        plain.update(t, step, 0.1, wd);
        expect_same_weights(t, plain.places, plain.w,
                            std::string(s.what) + ", step " + std::to_string(step));
      }
    }
  }
}

TEST(AdafactorTest, ThreadsChangeNoBit) {
  for (const OptimizerKind kind : {OptimizerKind::adafactor, OptimizerKind::adam}) {
    TrainConfig config;
    config.optimizer = kind;
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 3}) {
      set_gemm_threads(threads);
      Tensor t({200, 300}, {1, 200}, 300, 200);
      Tensor w1({200, 20, 15}, {1, 15 * 200, 200}, 300, 200);
      const auto optimizer = make_optimizer(config, {&t.parameter, &w1.parameter});
      for (std::int64_t step = 1; step <= 3; ++step) {
        t.draw_gradient(step, 1e-2f);
        w1.draw_gradient(step + 10, 1e-2f);
        optimizer->update(step, 0.01);
      }
      results.push_back(t.weights);
      results.back().insert(results.back().end(), w1.weights.begin(), w1.weights.end());
    }
    set_gemm_threads(available_threads());
    EXPECT_EQ(results[0], results[1]) << print_value(kind);
  }
}

TEST(AdafactorTest, ZeroGradientsMoveNothing) {
  TrainConfig config;
  Tensor t({5, 150}, {150, 1}, 5, 150);
  const std::vector<float> before = t.weights;
  make_optimizer(config, {&t.parameter})->update(1, 0.1);
  EXPECT_EQ(t.weights, before);
}

TEST(AdamTest, IsTheFrameworksRule) {
  TrainConfig config;
  config.optimizer = OptimizerKind::adam;
  Tensor t({100, 50}, {1, 100}, 50, 100);
  std::vector<double> m(t.weights.size(), 0), v = m, w(t.weights.begin(), t.weights.end());
  std::vector<std::size_t> places(w.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  const auto optimizer = make_optimizer(config, {&t.parameter});
  for (std::int64_t step = 1; step <= 5; ++step) {
    t.draw_gradient(step, 1e-3f);
    optimizer->update(step, 0.01);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = double(t.gradient[i]), exponent = double(step) + 1;
      m[i] = 0.1 * g + 0.9 * m[i];
      v[i] = 0.001 * g * g + 0.999 * v[i];
      w[i] -= 0.01 * (m[i] / (1 - std::pow(0.9, exponent))) /
              (std::sqrt(v[i] / (1 - std::pow(0.999, exponent))) + 1e-5);
    }
    expect_same_weights(t, places, w, "step " + std::to_string(step));
  }
}

TEST(OptimizerTest, LeavesFrozenParametersAlone) {
  for (const OptimizerKind kind : {OptimizerKind::adafactor, OptimizerKind::adam}) {
    TrainConfig config;
    config.optimizer = kind;
    Tensor trained({5, 9}, {9, 1}, 5, 9), frozen({5, 9}, {9, 1}, 5, 9);
    trained.draw_gradient(1, 1);
    frozen.parameter.gradient = nullptr;
    const std::vector<float> before = frozen.weights;
    const auto optimizer = make_optimizer(config, {&frozen.parameter, &trained.parameter});
    EXPECT_EQ(optimizer->slots().size(), 2u);
    optimizer->update(1, 0.1);
    EXPECT_EQ(frozen.weights, before);
    EXPECT_NE(trained.weights, before);
  }
}

TEST(OptimizerTest, RolesHaveRatesOfTheirOwn) {
  for (const OptimizerKind kind : {OptimizerKind::adafactor, OptimizerKind::adam}) {
    TrainConfig config;
    config.optimizer = kind;
    config.selector_rate = 0.5;
    config.selected_rate = 4;
    // From zero weights: what is there after a step is the update, and powers of two are exact.
    const auto updated = [&](Role role, bool is_vector) {
      Tensor t(is_vector ? std::vector<std::int64_t>{45} : std::vector<std::int64_t>{5, 9},
               is_vector ? std::vector<std::int64_t>{1} : std::vector<std::int64_t>{9, 1}, 5, 9,
               /*scale=*/0);
      t.parameter.role = role;
      t.draw_gradient(1, 1);
      make_optimizer(config, {&t.parameter})->update(1, 0.1);
      return t.weights;
    };
    for (const bool is_vector : {false, true}) {
      const auto ordinary = updated(Role::ordinary, is_vector),
                 selector = updated(Role::selector, is_vector),
                 selected = updated(Role::selected, is_vector);
      for (std::size_t i = 0; i < ordinary.size(); ++i) {
        EXPECT_EQ(selector[i], 0.5f * ordinary[i]);
        EXPECT_EQ(selected[i], 4 * ordinary[i]);
      }
      EXPECT_NE(ordinary, std::vector<float>(ordinary.size(), 0.0f));
    }
  }
}

TEST(OptimizerTest, StateAndNameAreAllThereIs) {
  // A second optimiser with the first one's slots goes on as the first does.
  for (const OptimizerKind kind : {OptimizerKind::adafactor, OptimizerKind::adam}) {
    TrainConfig config;
    config.optimizer = kind;
    Tensor a({70, 3, 4}, {1, 280, 70}, 12, 70), b({70, 3, 4}, {1, 280, 70}, 12, 70);
    const auto first = make_optimizer(config, {&a.parameter});
    const auto second = make_optimizer(config, {&b.parameter});
    a.draw_gradient(1, 1);
    first->update(1, 0.1);
    std::copy(a.weights.begin(), a.weights.end(), b.weights.begin());
    const auto from = first->slots(), to = second->slots();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      *to[i].values = *from[i].values;
    }
    a.draw_gradient(2, 1);
    b.draw_gradient(2, 1);
    first->update(2, 0.1);
    second->update(2, 0.1);
    EXPECT_EQ(a.weights, b.weights) << print_value(kind);
  }
}

TEST(ScheduleTest, HasTheReferencesNumbers) {
  TrainConfig config;
  EXPECT_NEAR(learning_rate_at(config, 1), 0.01, 1e-9);
  EXPECT_NEAR(learning_rate_at(config, 10000), 0.01, 1e-9);
  EXPECT_NEAR(learning_rate_at(config, 500000), 0.00141421, 1e-8);
  EXPECT_NEAR(adafactor_decay_at(1), 0.42565, 1e-5);
  config.schedule = Schedule::warmup_rsqrt;
  EXPECT_NEAR(learning_rate_at(config, 5000), 0.005, 1e-9);
  EXPECT_NEAR(learning_rate_at(config, 10000), 0.01, 1e-9);
  EXPECT_NEAR(learning_rate_at(config, 40000), 0.005, 1e-9);
  config.schedule = Schedule::constant;
  config.learning_rate = 0.3;
  EXPECT_EQ(learning_rate_at(config, 7), 0.3);
}

TEST(ScheduleTest, LinearAndCosineEndAtZero) {
  TrainConfig config;
  config.learning_rate = 0.4;
  config.warmup_steps = 100;
  config.decay_steps = 1100;
  for (const Schedule schedule : {Schedule::linear, Schedule::cosine}) {
    config.schedule = schedule;
    EXPECT_NEAR(learning_rate_at(config, 50), 0.2, 1e-12);
    EXPECT_NEAR(learning_rate_at(config, 100), 0.4, 1e-12);
    EXPECT_NEAR(learning_rate_at(config, 600), 0.2, 1e-12);
    EXPECT_EQ(learning_rate_at(config, 1100), 0);
    EXPECT_EQ(learning_rate_at(config, 5000), 0);
    EXPECT_TRUE(is_warming_up(config, 99));
    EXPECT_FALSE(is_warming_up(config, 100));
  }
  EXPECT_NEAR(learning_rate_at(config, 350), 0.4 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  config.schedule = Schedule::linear;
  EXPECT_NEAR(learning_rate_at(config, 350), 0.3, 1e-12);
}

TEST(ScheduleTest, WeightDecayFallsLinearlyOrStays) {
  TrainConfig config;
  EXPECT_EQ(weight_decay_at(config, 1), 0);
  config.weight_decay = 1e-5;
  EXPECT_EQ(weight_decay_at(config, 1000000), 1e-5);
  config.weight_decay_steps = 100000;
  EXPECT_NEAR(weight_decay_at(config, 25000), 0.75e-5, 1e-15);
  EXPECT_EQ(weight_decay_at(config, 100001), 0);
}

}  // namespace
}  // namespace scaling
