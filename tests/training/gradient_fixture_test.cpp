// Holds training to an independent framework (fixtures/make_training_fixtures.py): outputs and
// gradients of every layer, gradients and ten losses of small models, updates of the optimiser.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/training/optimizer.h"
#include "models/transformer/transformer.h"
#include "tests/fixtures/papers_layers.h"
#include "tests/layers/layer_under_test.h"
#include "tests/training/training_fixture.h"

namespace scaling {
namespace {

/// Shares of the largest expected magnitude.
constexpr double kForwardTolerance = 1e-5, kGradientTolerance = 1e-4, kUpdateTolerance = 1e-5;
/// Share of a loss.
constexpr double kLossTolerance = 1e-4;

std::string component_of(const std::string& name) {
  for (const std::string& component : component_names()) {
    if (name.rfind(component + "_", 0) == 0) return component;
  }
  return "";
}

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const std::string& name : fixtures_with("")) {
    if (!component_of(name).empty()) names.push_back(name);
  }
  return names;
}

Mat gradient_of(const Parameter& p) {
  if (p.gradient == nullptr) {
    ADD_FAILURE() << p.name << " has no gradient";
    return Mat::Zero(p.rows, p.cols);
  }
  return Eigen::Map<const Mat>(p.gradient, p.rows, p.cols);
}

std::string implementation_of(const std::string& component, const ModelConfig& config) {
  return get_field(config, component);
}

// -- single layers --------------------------------------------------------------------------------

class LayerFixtureTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    fixture_ = load_fixture(GetParam());
    const std::string component = component_of(GetParam());
    layer_ = make_layer(component, implementation_of(component, fixture_.config), fixture_.config);
    set_parameters(fixture_, layer_->parameters);
    layer_->in = fixture_.with("input.");
    layer_->up = fixture_.with("upstream.");
    if (component == "attention") {
      layer_->mask.causal = fixture_.at("constant.causal")(0, 0) != 0;
      for (const auto& [name, keys] : fixture_.with("constant.keys")) {
        for (std::int64_t i = 0; i < keys.size(); ++i) seen_.push_back(keys(0, i) != 0);
        layer_->mask.keys = seen_.data();
      }
    }
  }

  Pass make_pass() const {
    const Mat& of_pass = fixture_.at("constant.pass");
    return training_pass(std::int64_t(of_pass(0, 0)), std::uint64_t(of_pass(0, 1)));
  }

  void expect_gradients() {
    for (const auto& [name, expected] : fixture_.with("input_gradient.")) {
      expect_within(layer_->din[name], expected, kGradientTolerance, GetParam() + " d" + name);
    }
    for (const Parameter* p : layer_->parameters) {
      expect_within(gradient_of(*p), fixture_.at("parameter_gradient." + p->name),
                    kGradientTolerance, GetParam() + " gradient of " + p->name);
    }
  }

  Fixture fixture_;
  std::unique_ptr<LayerUnderTest> layer_;
  std::vector<std::uint8_t> seen_;
};

TEST_P(LayerFixtureTest, ForwardAndBackward) {
  if (HasFatalFailure()) return;
  Pass pass = make_pass();
  layer_->forward(pass);
  for (const auto& [name, ours] : layer_->out) {
    expect_within(ours, fixture_.at("output." + name), kForwardTolerance, GetParam() + " " + name);
  }
  if (auto* loss = dynamic_cast<LossUnderTest*>(layer_.get())) {
    const Mat &targets = fixture_.at("constant.targets"),
              &weights = fixture_.at("constant.weights");
    std::vector<int> ids;
    for (std::int64_t i = 0; i < targets.size(); ++i) ids.push_back(int(targets(0, i)));
    const CrossEntropy sums = loss->cross_entropy(
        pass, ids, std::vector<float>(weights.data(), weights.data() + weights.size()),
        fixture_.at("constant.scale")(0, 0));
    const double expected = double(fixture_.at("output.loss")(0, 0));
    EXPECT_NEAR(sums.loss, expected, kForwardTolerance * expected);
    EXPECT_DOUBLE_EQ(sums.weight, double(weights.sum()));
    EXPECT_DOUBLE_EQ(sums.correct, double(fixture_.at("constant.correct")(0, 0)));
  } else {
    layer_->backward(pass);
  }
  expect_gradients();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LayerFixtureTest, testing::ValuesIn(layer_names()),
                         [](const auto& test) { return test.param; });

// -- whole models ---------------------------------------------------------------------------------

class ModelFixtureTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { fixture_ = load_fixture(GetParam()); }

  /// Rows of the step's examples.
  template <class T>
  std::vector<T> rows_of(const std::string& array, std::int64_t step) const {
    const Mat& all = fixture_.at(array);
    const std::int64_t examples = all.rows() / steps(), n = examples * all.cols();
    return std::vector<T>(all.data() + step * n, all.data() + (step + 1) * n);
  }
  std::int64_t steps() const { return fixture_.at("losses").cols(); }

  Batch batch_of(std::int64_t step) const {
    Batch batch;
    batch.examples = fixture_.at("target").rows() / steps();
    batch.input_length = fixture_.at("target").cols();
    batch.target = rows_of<int>("target", step);
    shift_right(batch.target, batch.examples, batch.input);
    batch.weights = rows_of<float>("weights", step);
    if (fixture_.arrays.count("source")) {
      batch.source_length = fixture_.at("source").cols();
      batch.source = rows_of<int>("source", step);
    }
    return batch;
  }

  void expect_gradients(const std::vector<Parameter*>& parameters, const std::string& what) {
    double largest = 0;
    for (const auto& [name, value] : fixture_.with("parameter_gradient.")) {
      largest = std::max(largest, double(value.cwiseAbs().maxCoeff()));
    }
    for (const Parameter* p : parameters) {
      // The bias of keys has no effect, so that its gradient is rounding errors.
      expect_within(gradient_of(*p), fixture_.at("parameter_gradient." + p->name),
                    kGradientTolerance, what + " gradient of " + p->name, 1e-2 * largest);
    }
  }

  void train(const Gemm& gemm) {
    const std::string what = GetParam() + ", " + gemm.name;
    Transformer model(fixture_.config);
    Team team(1);
    model.allocate_for_training(team);
    const std::vector<Parameter*> parameters = model.parameters();
    set_parameters(fixture_, parameters);
    if (HasFatalFailure()) return;
    TrainConfig config;
    config.optimizer = OptimizerKind::adafactor;
    config.weight_decay = double(fixture_.at("weight_decay")(0, 0));
    config.weight_decay_steps = std::int64_t(fixture_.at("weight_decay")(0, 1));
    const auto optimizer = make_optimizer(config, parameters);
    const auto kept = model.make_activations();
    for (std::int64_t step = 0; step < steps(); ++step) {
      const Batch batch = batch_of(step);
      double weight = 0;
      for (const float w : batch.weights) weight += double(w);
      Pass pass{.gemm = gemm,
                .examples = batch.examples,
                .training = true,
                .seed = std::uint64_t(fixture_.at("seeds")(0, step))};
      model.zero_gradients();
      const CrossEntropy sums = model.loss_and_gradients(pass, batch, float(1 / weight), *kept);
      EXPECT_DOUBLE_EQ(sums.weight, weight) << what;
      const double expected = double(fixture_.at("losses")(0, step));
      EXPECT_NEAR(sums.loss / sums.weight, expected, kLossTolerance * expected)
          << what << " step " << step;
      if (step == 0) expect_gradients(parameters, what);
      optimizer->update(step + 1, double(fixture_.at("learning_rates")(0, step)));
    }
  }

  Fixture fixture_;
};

TEST_P(ModelFixtureTest, FirstGradientsAndLosses) {
  for (const Gemm& gemm : gemms()) train(gemm);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ModelFixtureTest, testing::ValuesIn(fixtures_with("model_")),
                         [](const auto& test) { return test.param; });

// -- optimiser ------------------------------------------------------------------------------------

std::vector<std::int64_t> integers(const Mat& m) {
  return std::vector<std::int64_t>(m.data(), m.data() + m.size());
}

TEST(AdafactorFixtureTest, ThreeUpdatesOfEveryRank) {
  ASSERT_FALSE(fixtures_with("adafactor").empty()) << training_fixtures();
  const Fixture f = load_fixture("adafactor");
  std::vector<std::string> names;
  for (const std::string& array : f.order) {
    const std::string ending = ".start";
    if (array.size() > ending.size() && array.substr(array.size() - ending.size()) == ending) {
      names.push_back(array.substr(0, array.size() - ending.size()));
    }
  }
  std::vector<Parameter> parameters;
  std::vector<Mat> values, gradients;
  std::set<std::size_t> ranks;
  for (const std::string& name : names) {
    const std::vector<std::int64_t> shape = integers(f.at(name + ".shape"));
    ranks.insert(shape.size());
    values.push_back(f.at(name + ".start"));
    gradients.push_back(Mat::Zero(values.back().rows(), values.back().cols()));
    const Mat& value = values.back();
    parameters.push_back(
        value.rows() == 1 ? Parameter::make_vector(name, value.cols(), {}, shape)
                          : Parameter::make_matrix(name, value.rows(), value.cols(), Layout::rows,
                                                   {}, shape, integers(f.at(name + ".strides"))));
  }
  EXPECT_EQ(ranks, (std::set<std::size_t>{1, 2, 3, 4}));
  std::vector<Parameter*> pointers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].data = values[i].data();
    parameters[i].gradient = gradients[i].data();
    pointers.push_back(&parameters[i]);
  }
  TrainConfig config;
  config.optimizer = OptimizerKind::adafactor;
  config.weight_decay = double(f.at("weight_decay")(0, 0));
  config.weight_decay_steps = std::int64_t(f.at("weight_decay")(0, 1));
  const auto optimizer = make_optimizer(config, pointers);
  for (std::int64_t step = 1; step <= f.at("learning_rates").cols(); ++step) {
    const std::string number = std::to_string(step);
    for (std::size_t i = 0; i < names.size(); ++i) {
      // Into the same memory, which the parameter points to.
      gradients[i].noalias() = f.at(names[i] + ".gradient" + number);
    }
    optimizer->update(step, double(f.at("learning_rates")(0, step - 1)));
    for (std::size_t i = 0; i < names.size(); ++i) {
      expect_within(values[i], f.at(names[i] + ".value" + number), kUpdateTolerance,
                    names[i] + " after step " + number);
    }
  }
}

// -- coverage -------------------------------------------------------------------------------------

/// A checkout without fixtures must not pass in silence. The paper's own layers have one each; what
/// comes later is held by finite differences over the catalog (gradient_test).
TEST(TrainingFixtures, CoverEveryComponent) {
  std::map<std::string, std::set<std::string>> covered;
  for (const std::string& name : layer_names()) {
    const std::string component = component_of(name);
    covered[component].insert(implementation_of(component, load_fixture(name).config));
  }
  auto expected = kPapersLayers;
  expected["attention"] = {"full"};
  expected["recurrence"] = {"sru"};
  for (const auto& [component, implementations] : expected) {
    for (const std::string& implementation : implementations) {
      EXPECT_TRUE(covered[component].count(implementation))
          << "no fixture in " << training_fixtures() << " has " << component << "="
          << implementation;
    }
  }
  EXPECT_GE(fixtures_with("model_").size(), 4u);
}

}  // namespace
}  // namespace scaling
