// Masked language modelling: what is hidden, how often, and that it is learnt from both sides.
#include "models/tasks/masked.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "models/training/trainer.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

constexpr std::int64_t kVocab = 260;

TrainConfig config_for(const Folder& folder) {
  TrainConfig config;
  config.task = "masked";
  config.corpus = folder / "text.txt";
  // Random letters, each written twice: a hidden one is known from its neighbour, which as often
  // comes after it as before it.
  std::ofstream text(config.corpus);
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    const char letter = char('a' + rng.below(8));
    text << letter << letter;
  }
  config.batch = 8;
  config.length = 40;
  config.gemm = "eigen";
  config.optimizer = OptimizerKind::adam;
  config.schedule = Schedule::constant;
  config.learning_rate = 0.003;
  config.steps = 500;
  config.evaluate_every = 500;
  config.evaluate_batches = 2;
  return config;
}

TEST(Masked, HidesFifteenInAHundred) {
  const Folder folder;
  const TrainConfig config = config_for(folder);
  const auto task = make_task(config, kVocab, folder / "cache");
  EXPECT_FALSE(needs_of(config).causal);
  Batch batch;
  std::map<std::string, int> read;
  int targets = 0;
  for (std::int64_t step = 0; step < 100; ++step) {
    task->train_batch(step, 0, 1, batch);
    EXPECT_FALSE(batch.causal);
    for (std::size_t i = 0; i < batch.input.size(); ++i) {
      if (batch.weights[i] == 0) {
        EXPECT_EQ(batch.input[i], batch.target[i]);
        continue;
      }
      ++targets;
      ++read[batch.input[i] == kMaskId           ? "hidden"
             : batch.input[i] == batch.target[i] ? "kept"
                                                 : "random"];
    }
  }
  EXPECT_EQ(targets, 100 * 8 * 6);  // 15 % of 40
  EXPECT_NEAR(read["hidden"] / double(targets), 0.8, 0.02);
  EXPECT_NEAR(read["kept"] / double(targets), 0.1, 0.015);
  EXPECT_NEAR(read["random"] / double(targets), 0.1, 0.015);
}

TEST(Masked, EveryEpochHidesOtherTokensAndEvaluationAlwaysTheSame) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  const auto task = make_task(config, kVocab, folder / "cache");
  config.data_seed = 2;
  const auto other = make_task(config, kVocab, folder / "cache");
  Batch one, two;
  std::map<std::vector<int>, std::set<std::vector<float>>> weights;  // by text
  for (std::int64_t step = 0; step < 300; ++step) {
    task->train_batch(step, 0, 1, one);
    for (std::int64_t e = 0; e < one.examples; ++e) {
      const auto at = e * one.input_length, end = at + one.input_length;
      weights[{one.target.begin() + at, one.target.begin() + end}].insert(
          {one.weights.begin() + at, one.weights.begin() + end});
    }
  }
  for (const auto& [text, chosen] : weights) EXPECT_GE(chosen.size(), 2u);
  task->validation_batch(0, 0, one);
  other->validation_batch(0, 0, two);
  EXPECT_EQ(one.input, two.input);
  EXPECT_EQ(one.weights, two.weights);
}

/// Half of the hidden letters are followed, not preceded, by their twin: a model that saw only what
/// comes before could tell just the other half and an eighth of these.
TEST(Masked, IsLearntFromBothSides) {
  set_gemm_threads(1);
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.batch = 16;
  config.length = 16;
  const auto task = make_task(config, kVocab, folder / "cache");
  ModelConfig shape = config_of_shape("tiny");
  shape.vocab_size = kVocab;
  shape.encoder_layers = 0;
  shape.decoder_layers = 2;
  Transformer model(shape);
  {
    Team team(1);
    model.allocate_for_training(team);
  }
  Trainer trainer(model, *task, config, folder / "run");
  EXPECT_TRUE(trainer.run(nullptr, nullptr));
  EXPECT_GT(trainer.evaluate().accuracy, 0.9);
}

}  // namespace
}  // namespace scaling
