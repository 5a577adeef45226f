// Training as a whole: losses fall, every component overfits one batch, a resumed run is the
// uninterrupted one, and what cannot go on is refused by name.
#include "models/training/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/random.h"
#include "models/knobs.h"
#include "models/layers/catalog.h"
#include "models/tasks/catalog.h"
#include "models/training/agreement.h"
#include "models/training/checkpoint.h"
#include "models/training/run_state.h"
#include "models/transformer/decoder.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

/// Decoder-only, vocab_size large enough for bytes.
ModelConfig small_model() {
  ModelConfig c = config_of_shape("tiny");
  c.d_ff = 64;
  c.vocab_size = 260;
  c.encoder = true;
  c.encoder_layers = 0;
  return c;
}

TrainConfig short_training() {
  TrainConfig t;
  t.batch = 4;
  t.length = 32;
  t.steps = 12;
  t.schedule = Schedule::constant;
  t.learning_rate = 0.02;
  t.evaluate_every = 4;
  t.evaluate_batches = 2;
  t.checkpoint_every = 3;
  t.gemm = "eigen";
  return t;
}

struct Training {
  Training(const ModelConfig& model_config, const TrainConfig& config, const Task& task,
           const std::string& folder)
      : model(model_config) {
    {
      Team team(1);
      model.allocate_for_training(team);
    }
    trainer = std::make_unique<Trainer>(model, task, config, folder);
  }
  /// Trains until `last` steps are done, or to the config's end; returns what run() does.
  bool train(std::int64_t last = std::numeric_limits<std::int64_t>::max()) {
    return trainer->run([this](const TrainReport& r) { losses.push_back(r.loss); },
                        [this, last] { return trainer->step() >= last; });
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (Parameter* p : model.parameters()) {
      all.insert(all.end(), p->values(), p->values() + p->count());
    }
    return all;
  }

  Transformer model;
  std::unique_ptr<Trainer> trainer;
  std::vector<double> losses;
};

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override { set_gemm_threads(1); }
  std::unique_ptr<Task> data(const TrainConfig& config) {
    return make_task(config, small_model().vocab_size, folder_ / "cache");
  }
  Folder folder_;
};

TEST_F(TrainerTest, LossFalls) {
  TrainConfig config = short_training();
  config.batch = 8;
  config.steps = 80;
  config.learning_rate = 0.03;
  config.evaluate_every = 40;
  const auto corpus = data(config);
  Training run(small_model(), config, *corpus, folder_ / "run");
  const Evaluation before = run.trainer->evaluate();
  EXPECT_NEAR(before.log_perplexity, std::log(260.0), 0.7);
  std::vector<Evaluation> evaluations;
  std::vector<TrainReport> reports;
  EXPECT_TRUE(run.trainer->run(
      [&](const TrainReport& r) {
        reports.push_back(r);
        if (r.evaluation) evaluations.push_back(*r.evaluation);
      },
      nullptr));
  ASSERT_EQ(reports.size(), 80u);
  EXPECT_EQ(reports.back().step, 80);
  EXPECT_EQ(reports.back().learning_rate, 0.03);
  EXPECT_GT(reports.back().tokens_per_s, 0);
  EXPECT_GT(reports.back().seconds, reports.front().seconds);
  EXPECT_LT(reports.back().loss, reports.front().loss - 1);
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_LT(evaluations.back().log_perplexity, before.log_perplexity - 1);
  EXPECT_GT(evaluations.back().accuracy, before.accuracy);
  EXPECT_GT(evaluations.back().bits_per_byte, 0);
  double loss = 0, tokens = 0;
  for (const Stretch& one : evaluations.back().stretches) {
    loss += one.loss;
    tokens += one.tokens;
  }
  EXPECT_EQ(std::int64_t(evaluations.back().stretches.size()), corpus->validation_batches());
  EXPECT_DOUBLE_EQ(loss / tokens, evaluations.back().log_perplexity);
  if (const auto floor = corpus->floor()) {
    EXPECT_GT(evaluations.back().log_perplexity, *floor);
  }
  EXPECT_GT(run.trainer->flops_per_step(), 0);
  // Looking does not change what is looked at.
  EXPECT_EQ(run.trainer->evaluate().log_perplexity, evaluations.back().log_perplexity);
}

/// What training reads of a trained model is what decoding its checkpoint token by token gives.
TEST_F(TrainerTest, DecodingTheBestCheckpointIsItsEvaluation) {
  ModelConfig model = small_model();
  model.feed_forward = "sparse";
  model.projection = "mult_conv";
  TrainConfig config = short_training();
  config.steps = 60;
  config.evaluate_every = 20;
  const auto corpus = data(config);
  Training run(model, config, *corpus, folder_ / "run");
  ASSERT_TRUE(run.train());
  const std::string best = folder_ / "run/best.ckpt";
  const RunState state = parse_run_state(read_checkpoint_info(best).training);
  ASSERT_TRUE(state.best.has_value());

  Transformer decoded(model);
  Team team(1);
  decoded.allocate(team);
  load_weights(best, decoded.parameters());
  double loss = 0, weight = 0;
  Batch batch;
  for (std::int64_t index = 0; index < corpus->validation_batches(); ++index) {
    corpus->validation_batch(0, index, batch);
    for (std::int64_t row = 0; row < batch.examples; ++row) {
      const auto at = row * batch.input_length;
      const std::vector<int> target(batch.target.begin() + at,
                                    batch.target.begin() + at + batch.input_length);
      const std::vector<float> weights(batch.weights.begin() + at,
                                       batch.weights.begin() + at + batch.input_length);
      Decoder decoder(decoded, find_kernel_set("simd"), team, 1, batch.input_length, 0);
      const CrossEntropy one = decode_cross_entropy(decoder, {}, target, weights);
      loss += one.loss;
      weight += one.weight;
    }
  }
  EXPECT_EQ(weight, 8 * 32);
  EXPECT_NEAR(loss / weight, *state.best, 1e-4);
}

/// The centroids of the routing attention are no optimiser's, and yet a run's: checkpoints carry
/// them, and pieces of a batch add to one mean.
TEST_F(TrainerTest, RunningMeansResumeBitForBit) {
  set_gemm_threads(2);
  ModelConfig model = small_model();
  model.attention = "routing";
  set_field(model, "routing_clusters", 4);
  set_field(model, "routing_decay", 0.9);
  TrainConfig config = short_training();
  config.dropout = 0.1;
  config.accumulate = 2;
  const auto corpus = data(config);
  const auto means_of = [](Training& run) {
    std::vector<float> all;
    for (Parameter* p : run.model.parameters()) {
      if (p->mean_decay != 0) all.insert(all.end(), p->values(), p->values() + p->count());
    }
    return all;
  };
  Training whole(model, config, *corpus, folder_ / "whole");
  const std::vector<float> initial = means_of(whole);
  ASSERT_FALSE(initial.empty());
  std::vector<TrainReport> reports;
  EXPECT_TRUE(whole.trainer->run([&](const TrainReport& r) { reports.push_back(r); }, nullptr));
  for (const TrainReport& r : reports) EXPECT_GT(r.extra_loss, 0);
  EXPECT_NE(means_of(whole), initial);
  for (const std::int64_t last : {5, 100}) {
    Training part(model, config, *corpus, folder_ / "parts");
    EXPECT_EQ(part.trainer->resume(), last == 5 ? 0 : 5);
    EXPECT_EQ(part.train(last), last >= config.steps);
    if (last >= config.steps) {
      EXPECT_EQ(part.weights(), whole.weights());
    }
  }
  // Evaluation changes nothing of them.
  const std::vector<float> trained = means_of(whole);
  whole.trainer->evaluate();
  EXPECT_EQ(means_of(whole), trained);
}

TEST_F(TrainerTest, ResumedRunIsTheUninterruptedOneBitForBit) {
  set_gemm_threads(2);
  ModelConfig model = small_model();
  model.feed_forward = "sparse";
  model.projection = "mult_conv";
  for (const OptimizerKind optimizer : {OptimizerKind::adafactor, OptimizerKind::adam}) {
    TrainConfig config = short_training();
    config.optimizer = optimizer;
    config.learning_rate = 0.01;
    config.dropout = 0.1;
    config.accumulate = 2;
    config.dense_steps = 3;
    config.hard_steps = 8;
    config.selector_rate = 2;
    config.selected_rate = 0.5;
    const auto corpus = data(config);
    const std::string whole_folder = folder_ / (std::string("whole_") + print_value(optimizer));
    const std::string parts_folder = folder_ / (std::string("parts_") + print_value(optimizer));
    constexpr double kPlateau = 5.3;
    Training whole(model, config, *corpus, whole_folder);
    EXPECT_TRUE(std::isnan(whole.trainer->plateau_share()));
    whole.trainer->set_plateau(kPlateau);
    EXPECT_EQ(whole.trainer->resume(), 0);
    EXPECT_TRUE(whole.train());
    std::vector<double> losses;
    for (const std::int64_t last : {5, 6, 11, 100}) {
      Training part(model, config, *corpus, parts_folder);
      part.trainer->set_plateau(kPlateau);
      EXPECT_EQ(part.trainer->resume(), std::int64_t(losses.size()));
      EXPECT_EQ(part.train(last), last >= config.steps);
      losses.insert(losses.end(), part.losses.begin(), part.losses.end());
      if (last < config.steps) continue;
      EXPECT_EQ(part.weights(), whole.weights());
      EXPECT_EQ(part.trainer->plateau_share(), whole.trainer->plateau_share());
    }
    EXPECT_EQ(losses, whole.losses);
    const auto above =
        std::count_if(losses.begin(), losses.end(), [](double loss) { return loss > kPlateau; });
    EXPECT_GT(above, 0);
    EXPECT_EQ(whole.trainer->plateau_share(), double(above) / double(config.steps));
    for (const char* file : {"latest.ckpt", "best.ckpt"}) {
      const CheckpointInfo a = read_checkpoint_info(whole_folder + "/" + file);
      const CheckpointInfo b = read_checkpoint_info(parts_folder + "/" + file);
      EXPECT_EQ(a.step, b.step);
      EXPECT_EQ(parse_run_state(a.training).best, parse_run_state(b.training).best);
      EXPECT_TRUE(parse_run_state(a.training).best.has_value());
    }
    EXPECT_EQ(read_checkpoint_info(whole_folder + "/latest.ckpt").step, config.steps);
    // Nothing is left to do.
    Training again(model, config, *corpus, whole_folder);
    EXPECT_EQ(again.trainer->resume(), config.steps);
    EXPECT_TRUE(again.train());
    EXPECT_TRUE(again.losses.empty());
  }
}

TEST_F(TrainerTest, StepsInBf16ResumeBitForBitAndEvaluateInF32) {
  set_gemm_threads(2);
  ModelConfig model = small_model();
  model.feed_forward = "sparse";
  TrainConfig config = short_training();
  config.gemm = "auto";
  config.matmul_precision = WeightType::bf16;
  const auto corpus = data(config);
  Training whole(model, config, *corpus, folder_ / "whole");
  TrainConfig in_f32 = config;
  in_f32.matmul_precision = WeightType::f32;
  Training exact(model, in_f32, *corpus, folder_ / "f32");
  // The same weights have the same loss.
  EXPECT_EQ(whole.trainer->evaluate().log_perplexity, exact.trainer->evaluate().log_perplexity);
  EXPECT_TRUE(whole.train());
  EXPECT_TRUE(exact.train());
  EXPECT_NE(whole.losses, exact.losses);
  for (std::size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(whole.losses[i], exact.losses[i], 0.05 * exact.losses[i]) << i;
  }
  std::vector<double> losses;
  for (const std::int64_t last : {5, 100}) {
    Training part(model, config, *corpus, folder_ / "parts");
    part.trainer->resume();
    part.train(last);
    losses.insert(losses.end(), part.losses.begin(), part.losses.end());
    if (last == 100) {
      EXPECT_EQ(part.weights(), whole.weights());
    }
  }
  EXPECT_EQ(losses, whole.losses);
  // Another precision is another training.
  expect_mentions(
      message_of([&] { Training(model, in_f32, *corpus, folder_ / "parts").trainer->resume(); }),
      {"latest.ckpt", "matmul_precision", "'bf16'", "'f32'"});
  set_gemm_threads(1);
}

TEST_F(TrainerTest, RatesOfRolesAndHardStepsChangeWhatIsLearnt) {
  ModelConfig model = small_model();
  model.feed_forward = "sparse";
  TrainConfig config = short_training();
  config.optimizer = OptimizerKind::adam;
  config.learning_rate = 1e-3;
  const auto corpus = data(config);
  const auto parameter_after = [&](const std::string& name, const TrainConfig& asked) {
    Training run(model, asked, *corpus, folder_ / "run");
    run.train();
    for (const Parameter* p : run.model.parameters()) {
      if (p->name == name) return p->matrix();
    }
    ADD_FAILURE() << "no parameter " << name;
    return Mat();
  };
  const std::string controller = "decoder.0.feed_forward.c1", row = "decoder.0.feed_forward.w1";
  TrainConfig none = config;
  none.selector_rate = none.selected_rate = 0;
  TrainConfig untrained = config;
  untrained.steps = 0;
  EXPECT_EQ(parameter_after(controller, none), parameter_after(controller, untrained));
  EXPECT_EQ(parameter_after(row, none), parameter_after(row, untrained));
  EXPECT_NE(parameter_after(row, config), parameter_after(row, untrained));
  TrainConfig annealed = config;
  annealed.hard_steps = 6;
  EXPECT_NE(parameter_after(row, annealed), parameter_after(row, config));
  TrainConfig dense = config;
  dense.dense_steps = config.steps;
  EXPECT_EQ(parameter_after(controller, dense), parameter_after(controller, untrained));
  EXPECT_NE(parameter_after(row, dense), parameter_after(row, config));
  dense.dense_steps = config.steps - 1;
  EXPECT_NE(parameter_after(controller, dense), parameter_after(controller, untrained));
}

TEST(HardShareTest, RisesFromNothingToAll) {
  TrainConfig config;
  EXPECT_LT(hard_share_at(config, 1), 0);
  config.hard_steps = 10;
  EXPECT_EQ(hard_share_at(config, 1), 0);
  EXPECT_EQ(hard_share_at(config, 6), 0.5);
  EXPECT_EQ(hard_share_at(config, 11), 1);
  EXPECT_EQ(hard_share_at(config, 500), 1);
  config.dense_steps = 100;
  EXPECT_EQ(hard_share_at(config, 100), 0);
  EXPECT_EQ(hard_share_at(config, 106), 0.5);
  EXPECT_EQ(hard_share_at(config, 111), 1);
}

TEST_F(TrainerTest, StepsDrawAnew) {
  TrainConfig config = short_training();
  // Every batch is the same, and no weight moves.
  config.corpus = folder_ / "letters.txt";
  std::ofstream(config.corpus) << std::string(50000, 'a');
  config.learning_rate = 1e-30;
  const auto corpus = data(config);
  for (const double dropout : {0.0, 0.5}) {
    config.dropout = dropout;
    config.accumulate = 2;
    Training run(small_model(), config, *corpus, folder_ / (dropout > 0 ? "dropped" : "kept"));
    run.train();
    std::vector<double> losses = run.losses;
    std::sort(losses.begin(), losses.end());
    const auto distinct = std::unique(losses.begin(), losses.end()) - losses.begin();
    EXPECT_EQ(distinct, dropout > 0 ? config.steps : 1);
  }
}

TEST_F(TrainerTest, PiecesOfABatchAddUpToIt) {
  TrainConfig config = short_training();
  config.optimizer = OptimizerKind::adam;
  config.learning_rate = 1e-3;
  config.steps = 4;
  const auto corpus = data(config);
  Training whole(small_model(), config, *corpus, folder_ / "whole");
  whole.train();
  for (const std::int64_t pieces : {2, 4}) {
    config.accumulate = pieces;
    Training run(small_model(), config, *corpus, folder_ / ("pieces" + std::to_string(pieces)));
    run.train();
    ASSERT_EQ(run.losses.size(), whole.losses.size());
    for (std::size_t i = 0; i < run.losses.size(); ++i) {
      EXPECT_NEAR(run.losses[i], whole.losses[i], 1e-4);
    }
    const std::vector<float> ours = run.weights(), expected = whole.weights();
    float difference = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      difference = std::max(difference, std::abs(ours[i] - expected[i]));
    }
    EXPECT_LT(difference, 1e-4f);
    EXPECT_NEAR(run.trainer->evaluate().log_perplexity, whole.trainer->evaluate().log_perplexity,
                1e-4);
  }
}

TEST_F(TrainerTest, RefusesACheckpointOfSomethingElseByName) {
  TrainConfig config = short_training();
  config.steps = 1;
  const std::string there = folder_ / "run";
  const auto corpus = data(config);
  Training(small_model(), config, *corpus, there).train();

  ModelConfig other_model = small_model();
  other_model.d_ff = 128;
  expect_mentions(
      message_of([&] { Training(other_model, config, *corpus, there).trainer->resume(); }),
      {"latest.ckpt", "d_ff", "'64'", "'128'"});
  TrainConfig other = config;
  other.optimizer = OptimizerKind::adam;
  expect_mentions(
      message_of([&] { Training(small_model(), other, *corpus, there).trainer->resume(); }),
      {"latest.ckpt", "optimizer", "'adam'", "'adafactor'"});

  const std::string file = folder_ / "text.txt";
  std::ofstream text(file);
  for (int i = 0; i < 3000; ++i) text << "line " << i << " of another text than before\n";
  text.close();
  other = config;
  other.corpus = file;
  const auto other_corpus = data(other);
  expect_mentions(
      message_of([&] { Training(small_model(), other, *other_corpus, there).trainer->resume(); }),
      {"latest.ckpt", "fingerprint", "generated", file});

  // What changes no weight may change.
  other = config;
  other.steps = 2;
  other.evaluate_every = other.checkpoint_every = 1;
  Training longer(small_model(), other, *corpus, there);
  EXPECT_EQ(longer.trainer->resume(), 1);
  EXPECT_TRUE(longer.train());

  std::filesystem::resize_file(there + "/latest.ckpt", 1000);
  expect_mentions(
      message_of([&] { Training(small_model(), config, *corpus, there).trainer->resume(); }),
      {"latest.ckpt"});
}

TEST_F(TrainerTest, RefusesWhatDoesNotFitTogether) {
  TrainConfig config = short_training();
  const auto corpus = data(config);
  TrainConfig spans = config;
  spans.task = "span_corruption";
  expect_mentions(message_of([&] { Training(small_model(), spans, *corpus, folder_ / "run"); }),
                  {"span_corruption", "encoder_layers"});
  TrainConfig long_examples = config;
  long_examples.length = 65;
  expect_mentions(
      message_of([&] { Training(small_model(), long_examples, *corpus, folder_ / "run"); }),
      {"65", "max_length", "64"});
}

TEST_F(TrainerTest, StopsAtWhatIsNotFiniteWithStepLayerAndCheckpoint) {
  TrainConfig config = short_training();
  config.checkpoint_every = 2;
  config.evaluate_every = 100;
  const auto corpus = data(config);
  const std::string poisoned = "decoder.1.feed_forward.w1";
  for (const std::int64_t after : {3, 4}) {
    const std::string there = folder_ / ("run" + std::to_string(after));
    Training run(small_model(), config, *corpus, there);
    const auto poison = [&](const TrainReport& report) {
      if (report.step != after) return;
      for (Parameter* p : run.model.parameters()) {
        if (p->name == poisoned) p->set(1, 2, std::numeric_limits<float>::quiet_NaN());
      }
    };
    const std::string message = message_of([&] { run.trainer->run(poison, nullptr); });
    // After step 4 it is found when that step's checkpoint is to be written.
    expect_mentions(message, {"step 4", poisoned, there + "/latest.ckpt", "of step 2"});
    EXPECT_EQ(read_checkpoint_info(there + "/latest.ckpt").step, 2);
    Training again(small_model(), config, *corpus, there);
    EXPECT_EQ(again.trainer->resume(), 2);
    EXPECT_TRUE(again.train());
  }
}

TEST_F(TrainerTest, NamesTheBranchWhoseResultOverflows) {
  for (const char* stack : {"plain", "reversible"}) {
    ModelConfig model = small_model();
    set_field(model, "residual_stack", stack);
    const TrainConfig config = short_training();
    const auto corpus = data(config);
    Training run(model, config, *corpus, folder_ / stack);
    const auto enlarge = [&](const TrainReport& report) {
      for (Parameter* p : run.model.parameters()) {
        if (report.step != 2 || p->name.rfind("decoder.0.feed_forward.w", 0) != 0) continue;
        for (std::int64_t i = 0; i < p->count(); ++i) p->values()[i] *= 1e22f;
      }
    };
    expect_mentions(message_of([&] { run.trainer->run(enlarge, nullptr); }),
                    {"step 3", "the result of decoder.0, feed-forward is not finite"});
  }
}

TEST_F(TrainerTest, NamesTheNewestGoodCheckpoint) {
  TrainConfig config = short_training();
  config.checkpoint_every = 100;
  config.evaluate_every = 3;
  const auto corpus = data(config);
  Training run(small_model(), config, *corpus, folder_ / "run");
  const auto poison = [&](const TrainReport& report) {
    if (report.step != 4) return;
    run.model.parameters()[0]->set(1, 2, std::numeric_limits<float>::quiet_NaN());
  };
  expect_mentions(message_of([&] { run.trainer->run(poison, nullptr); }),
                  {"is not finite", folder_ / "run/best.ckpt", "of step 3"});
}

TEST_F(TrainerTest, StopsAtALossThatExplodes) {
  TrainConfig config = short_training();
  config.steps = 100;
  config.learning_rate = 1e-6;
  config.evaluate_every = config.checkpoint_every = 10;
  const std::int64_t broken = 30;
  for (const Schedule schedule : {Schedule::constant, Schedule::warmup_rsqrt}) {
    const bool ramp = schedule == Schedule::warmup_rsqrt;
    config.schedule = schedule;
    config.warmup_steps = 50;
    const auto corpus = data(config);
    const std::string there = folder_ / print_value(schedule);
    Training run(small_model(), config, *corpus, there);
    std::int64_t last = 0;
    const auto breaks = [&](const TrainReport& report) {
      last = report.step;
      if (report.step != broken) return;
      // Finite, but of logits in the thousands.
      for (Parameter* p : run.model.parameters()) {
        if (p->name != "loss.w") continue;
        for (std::int64_t i = 0; i < p->count(); ++i) p->values()[i] *= 1000;
      }
    };
    const std::string message = message_of([&] { run.trainer->run(breaks, nullptr); });
    EXPECT_EQ(last, ramp ? config.warmup_steps + kExplosionSteps - 1 : broken);
    expect_mentions(message,
                    {"exploded", "to " + std::to_string(last + 1), "5 ln(vocab_size) = 27.8",
                     there + "/best.ckpt", "learning_rate 1e-06"});
  }
}

/// Random targets that no model knows unless it has learnt them; the first of an example is given.
Batch fixed_batch(const ModelConfig& config) {
  Rng rng(17);
  Batch b;
  b.examples = 2;
  b.source_length = config.decoder_only() ? 0 : 6;
  b.input_length = 10;
  for (std::int64_t e = 0; e < b.examples; ++e) {
    for (std::int64_t i = 0; i < b.source_length; ++i) b.source.push_back(2 + int(rng.below(22)));
    for (std::int64_t i = 0; i < b.input_length; ++i) {
      b.target.push_back(i == 0 ? 2 + int(e) : 2 + int(rng.below(22)));
      b.weights.push_back(i == 0 ? 0.0f : 1.0f);
    }
  }
  shift_right(b.target, b.examples, b.input);
  return b;
}

/// Loss in evaluation (hard selections) below 0.01 nats a token.
void expect_overfits(const ModelConfig& config, const std::string& what) {
  constexpr std::int64_t kSteps = 3000;
  Transformer model(config);
  {
    Team team(1);
    model.allocate_for_training(team);
  }
  TrainConfig training;
  training.optimizer = OptimizerKind::adam;
  training.schedule = Schedule::warmup_rsqrt;
  training.warmup_steps = 50;
  training.learning_rate = 0.07;
  const auto optimizer = make_optimizer(training, model.parameters());
  const auto kept = model.make_activations();
  const Batch batch = fixed_batch(config);
  const Gemm& gemm = find_gemm("eigen");
  double loss = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    model.zero_gradients();
    Pass pass{.gemm = gemm, .training = true, .seed = std::uint64_t(step)};
    model.loss_and_gradients(pass, batch, 1.0f / 18, *kept);
    optimizer->update(step, learning_rate_at(training, step));
    if (step % 25 != 0) continue;
    Pass look{.gemm = gemm};
    const CrossEntropy seen = model.loss_of(look, batch, *kept);
    ASSERT_EQ(seen.weight, 18) << what;
    loss = seen.loss / seen.weight;
    if (loss < 0.01) return;
  }
  ADD_FAILURE() << what << ": " << loss << " nats a token after " << kSteps << " steps";
}

void expect_overfits(const std::string& component, const ModelConfig& config) {
  set_gemm_threads(1);
  for (const std::string& name : causal_implementations_of(component)) {
    ModelConfig c = config;
    c.vocab_size = 24;
    set_field(c, component, name);
    expect_overfits(c, component + " " + name);
  }
}

TEST(OverfitTest, EveryFeedForward) { expect_overfits("feed_forward", small_model()); }

TEST(OverfitTest, EveryProjection) { expect_overfits("projection", small_model()); }

TEST(OverfitTest, EveryAttention) {
  ModelConfig c = small_model();
  set_field(c, "lsh_chunk", 4);
  set_field(c, "routing_clusters", 2);
  expect_overfits("attention", c);
}

TEST(OverfitTest, SparseFeedForwardAndProjectionTogether) {
  set_gemm_threads(1);
  ModelConfig c = small_model();
  c.vocab_size = 24;
  c.feed_forward = "sparse";
  c.projection = "mult_conv";
  expect_overfits(c, "both");
}

TEST(OverfitTest, EveryLoss) { expect_overfits("loss", small_model()); }

TEST(OverfitTest, EveryCrossProjectionAndCrossAttention) {
  ModelConfig c = small_model();
  c.encoder_layers = 1;
  expect_overfits("cross_projection", c);
  expect_overfits("cross_attention", c);
}

TEST(OverfitTest, EverySelector) {
  set_gemm_threads(1);
  for (const char* selector : {"learned", "random", "hash"}) {
    ModelConfig c = small_model();
    c.vocab_size = 24;
    c.feed_forward = "sparse";
    set_field(c, "selector", selector);
    expect_overfits(c, selector);
  }
}

TEST(TrainConfigTest, EveryKnobIsReadAsItIsPrinted) {
  TrainConfig config;
  config.learning_rate = 0.1 + 0.2;
  config.weight_decay = 1e-5;
  config.data_seed = 0xffffffffffffffffu;
  config.corpus = "a \"quoted\" \\ name\n";
  TrainConfig copy;
  for (const std::string& name : train_field_names()) {
    set_field(copy, name, get_field(config, name));
    EXPECT_EQ(get_field(copy, name), get_field(config, name));
  }
  EXPECT_EQ(copy.learning_rate, config.learning_rate);
  EXPECT_EQ(copy.data_seed, config.data_seed);
  EXPECT_EQ(get_field(config, "weight_decay"), "1e-05");
  expect_mentions(message_of([&] { set_field(copy, "bach", "1"); }), {"bach", "batch"});
  expect_mentions(message_of([&] { set_field(copy, "batch", "1.5"); }), {"batch", "1.5", "whole"});
  expect_mentions(message_of([&] { set_field(copy, "dropout", "nan"); }), {"dropout", "nan"});
}

TEST(TrainConfigTest, DenseStepsAreForTheSparseFeedForward) {
  TrainConfig train;
  train.length = 8;
  train.dense_steps = 5;
  const Needs needs{
      .causal = true, .trained = {0, 8}, .evaluated = {0, 8}, .length_knobs = "length"};
  ModelConfig model = small_model();
  model.feed_forward = "sparse";
  EXPECT_EQ(message_of([&] { require_fit(train, needs, model); }), "no error");
  model.feed_forward = "moe_block";
  expect_mentions(message_of([&] { require_fit(train, needs, model); }),
                  {"dense_steps 5", "sparse", "moe_block", "0"});
}

TEST(TrainConfigTest, RefusesWhatMakesNoSense) {
  EXPECT_NO_THROW(TrainConfig().validate());
  const std::vector<std::vector<std::string>> bad = {
      {"task", "translation", "causal"},
      {"tokenizer", "words", "bytes"},
      {"optimizer", "sgd", "adafactor"},
      {"schedule", "steps", "rsqrt"},
      {"schedule", "cosine", "decay_steps 0"},
      {"decay_steps", "100", "rsqrt"},
      {"adam_epsilon", "0", "positive"},
      {"selector_rate", "-1", "negative"},
      {"selected_rate", "-0.5", "negative"},
      {"dense_steps", "-1", "0"},
      {"hard_steps", "-1", "0"},
      {"gemm", "mkl", "eigen"},
      {"corpus", "", "generated"},
      {"batch", "0", "1"},
      {"accumulate", "3", "batch 16"},
      {"length", "1", "2"},
      {"steps", "-1", "0"},
      {"learning_rate", "0", "positive"},
      {"warmup_steps", "-1", "0"},
      {"weight_decay", "1", "share"},
      {"dropout", "1", "share"},
      {"evaluate_every", "0", "1"},
      {"evaluate_batches", "0", "1"},
      {"checkpoint_every", "0", "1"},
  };
  for (const auto& b : bad) {
    TrainConfig config;
    const auto check = [&] {
      set_field(config, b[0], b[1]);
      needs_of(config);
    };
    expect_mentions(message_of(check), {b[0], b[1], b[2]});
  }
  TrainConfig adam;
  adam.optimizer = OptimizerKind::adam;
  adam.weight_decay = 0.1;
  expect_mentions(message_of([&] { adam.validate(); }), {"weight_decay", "adafactor"});
}

TEST(RunStateTest, ComesBackFromJson) {
  RunState state;
  state.config.corpus = "a \"quoted\" \\ name\n\t\x01 \xc3\xa9";
  state.config.learning_rate = 0.1 + 0.2;
  state.seconds = 1234.5678901234567;
  EXPECT_FALSE(parse_run_state(to_json(state)).best.has_value());
  state.best = 1.0 / 3;
  state.tokenizer_model = "cache/some.model";
  state.plateau_steps = 17;
  state.init = "0123456789abcdef";
  const RunState back = parse_run_state(to_json(state));
  EXPECT_EQ(back.config.corpus, state.config.corpus);
  EXPECT_EQ(back.config.learning_rate, state.config.learning_rate);
  EXPECT_EQ(back.seconds, state.seconds);
  EXPECT_EQ(back.best, state.best);
  EXPECT_EQ(back.tokenizer_model, state.tokenizer_model);
  EXPECT_EQ(back.plateau_steps, state.plateau_steps);
  EXPECT_EQ(back.init, state.init);
  for (const char* bad : {"", "{", "{\"steps\"}", "{\"steps\": 1}", "{\"steps\": \"1\"} x", "[]",
                          "{\"no_such_knob\": \"1\"}", "{\"steps\": \"x\"}"}) {
    EXPECT_THROW(parse_run_state(bad), UserError) << bad;
  }
  EXPECT_EQ(parse_run_state("{}").config.steps, TrainConfig().steps);
}

}  // namespace
}  // namespace scaling
