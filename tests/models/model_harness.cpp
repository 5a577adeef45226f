// Models, batches and gradients; differences between gradients.
#include "tests/models/model_harness.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/random.h"

namespace scaling {

void shake_vectors(Transformer& model) {
  Rng rng(11);
  model.visit_parameters([&](Parameter& p) {
    for (std::int64_t i = 0; p.is_vector && i < p.cols; ++i) {
      p.set(0, i, p.get(0, i) + rng.uniform(-0.3f, 0.3f));
    }
  });
}

std::unique_ptr<Transformer> trainable(const ModelConfig& config) {
  auto model = std::make_unique<Transformer>(config);
  Team team(2);
  model->allocate_for_training(team);
  shake_vectors(*model);
  return model;
}

std::unique_ptr<Transformer> decodable(const ModelConfig& config) {
  auto model = std::make_unique<Transformer>(config);
  Team team(2);
  model->allocate(team);
  shake_vectors(*model);
  return model;
}

std::vector<int> draw_ids(const ModelConfig& config, std::int64_t n, std::uint64_t stream) {
  Rng rng(3, stream);
  std::vector<int> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(1 + int(rng.below(std::uint32_t(config.vocab_size - 1))));
  }
  return ids;
}

Batch batch_of(const std::vector<Example>& examples) {
  Batch b;
  b.examples = std::int64_t(examples.size());
  for (const Example& e : examples) {
    b.source_length = std::max(b.source_length, std::int64_t(e.source.size()));
    b.input_length = std::max(b.input_length, std::int64_t(e.target.size()));
  }
  const auto append = [](const std::vector<int>& from, std::int64_t length, std::vector<int>& to) {
    to.insert(to.end(), from.begin(), from.end());
    to.insert(to.end(), std::size_t(length) - from.size(), 0);
  };
  for (const Example& e : examples) {
    append(e.source, b.source_length, b.source);
    append(e.target, b.input_length, b.target);
  }
  shift_right(b.target, b.examples, b.input);
  for (const int id : b.target) b.weights.push_back(id == 0 ? 0.0f : 1.0f);
  return b;
}

std::vector<Example> three_examples(const ModelConfig& c) {
  std::vector<Example> all;
  const std::int64_t source_lengths[] = {7, 4, 6}, target_lengths[] = {9, 9, 5};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::int64_t length = c.decoder_only() ? 0 : source_lengths[i];
    all.push_back({draw_ids(c, length, 2 * i), draw_ids(c, target_lengths[i], 2 * i + 1)});
  }
  return all;
}

Pass model_pass(bool training, float dropout, std::uint64_t seed) {
  return {.gemm = find_gemm("eigen"), .training = training, .dropout = dropout, .seed = seed};
}

CrossEntropy evaluated(const Transformer& model, const Batch& batch) {
  Pass pass = model_pass(false);
  return model.loss_of(pass, batch, *model.make_activations());
}

Step step_of(Transformer& model, Pass pass, const Batch& batch) {
  Step step;
  model.zero_gradients();
  step.sums = model.loss_and_gradients(pass, batch, 1, *model.make_activations());
  for (const Parameter* p : model.parameters()) {
    step.names.push_back(p->name);
    step.gradients.emplace_back(p->gradient
                                    ? Mat(Eigen::Map<const Mat>(p->gradient, p->rows, p->cols))
                                    : Mat(Mat::Zero(1, 1)));
  }
  return step;
}

double relative_difference(const Step& ours, const Step& expected, std::string* worst_name) {
  float largest = 0;
  for (const Mat& g : expected.gradients) largest = std::max(largest, g.cwiseAbs().maxCoeff());
  double worst = 0;
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    const Mat &a = ours.gradients.at(i), &b = expected.gradients[i];
    const double scale = double(std::max(b.cwiseAbs().maxCoeff(), 1e-2f * largest));
    const double difference = double((a - b).cwiseAbs().maxCoeff()) / scale;
    if (difference <= worst) continue;
    worst = difference;
    if (worst_name) *worst_name = expected.names[i];
  }
  return worst;
}

void expect_same_gradients(const Step& ours, const Step& expected, double tolerance,
                           const std::string& what) {
  ASSERT_EQ(ours.names, expected.names) << what;
  for (const Mat& g : ours.gradients) ASSERT_TRUE(g.allFinite()) << what;
  std::string worst;
  const double difference = relative_difference(ours, expected, &worst);
  EXPECT_LE(difference, tolerance) << what << ": " << worst;
}

}  // namespace scaling
