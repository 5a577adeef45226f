// Training that starts at random positions (paper 4.7): what is drawn, which rows learn, and
// that nothing changes where it is not asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "models/tasks/catalog.h"
#include "models/training/trainer.h"
#include "models/transformer/embedding.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kExamples = 3, kLength = 8, kWidth = 16, kRows = 40, kTokens = 5;

/// Two tables with gradients: tokens are 0 everywhere, positions random.
struct Tables {
  Tables() {
    initialize({&tokens, &positions.weights}, WeightType::f32, 1, arena, team);
    tokens.gradient = token_gradient.data();
    positions.weights.gradient = position_gradient.data();
  }
  Mat row_of_position(std::int64_t t) const {
    return Eigen::Map<const Mat>(positions.weights.view().f32() + t * kWidth, 1, kWidth);
  }

  Parameter tokens = Parameter::make_matrix("tokens", kTokens, kWidth, Layout::rows,
                                            {Initializer::Kind::constant, 0});
  PositionVectors positions = {PositionEncoding::table,
                               Parameter::make_matrix("positions", kRows, kWidth, Layout::rows,
                                                      {Initializer::Kind::normal, 1})};
  Arena arena{arena_bytes({&tokens, &positions.weights}, WeightType::f32)};
  Team team{1};
  std::vector<float> token_gradient = std::vector<float>(std::size_t(kTokens * kWidth), 0.0f);
  std::vector<float> position_gradient = std::vector<float>(std::size_t(kRows * kWidth), 0.0f);
  std::vector<int> ids = std::vector<int>(std::size_t(kExamples * kLength), 3);
};

Pass pass_from(std::uint64_t seed, std::int64_t offsets, float start_from_zero,
               bool training = true) {
  return {.gemm = find_gemm("eigen"),
          .examples = kExamples,
          .training = training,
          .seed = seed,
          .start_from_zero = start_from_zero,
          .position_offsets = offsets};
}

TEST(PositionOffsets, NothingIsDrawnUnlessAskedFor) {
  Tables t;
  EmbeddingKept kept;
  Mat plain, x;
  Pass pass{.gemm = find_gemm("eigen"), .examples = kExamples, .training = true, .seed = 7};
  embed(pass, t.tokens, t.positions, t.ids, kept, plain);
  EXPECT_EQ(pass.streams, 2u);  // of the two dropouts
  for (std::int64_t row = 0; row < plain.rows(); ++row) {
    EXPECT_EQ(Mat(plain.row(row)), t.row_of_position(row % kLength)) << row;
  }
  // Evaluation starts at 0, whatever training does.
  Pass evaluation = pass_from(7, 30, 0, false);
  embed(evaluation, t.tokens, t.positions, t.ids, kept, x);
  EXPECT_EQ(evaluation.streams, 2u);
  EXPECT_EQ(kept.first, 0);
  EXPECT_EQ(x, plain);
  // Always from zero.
  Pass from_zero = pass_from(7, 30, 1);
  embed(from_zero, t.tokens, t.positions, t.ids, kept, x);
  EXPECT_EQ(x, plain);
}

TEST(PositionOffsets, StartsAreUniformBesideTheShareAtZero) {
  Tables t;
  EmbeddingKept kept;
  Mat x;
  constexpr int kDraws = 4000, kOffsets = 10;
  std::map<std::int64_t, int> starts;
  for (int seed = 0; seed < kDraws; ++seed) {
    Pass pass = pass_from(std::uint64_t(seed), kOffsets, 0.4f);
    embed(pass, t.tokens, t.positions, t.ids, kept, x);
    EXPECT_EQ(pass.streams, 3u);
    ++starts[kept.first];
  }
  ASSERT_EQ(starts.size(), std::size_t(kOffsets));
  EXPECT_EQ(starts.begin()->first, 0);
  EXPECT_EQ(starts.rbegin()->first, kOffsets - 1);
  EXPECT_NEAR(starts[0], kDraws * (0.4 + 0.06), 4 * std::sqrt(kDraws * 0.25));
  for (int offset = 1; offset < kOffsets; ++offset) {
    EXPECT_NEAR(starts[offset], kDraws * 0.06, 5 * std::sqrt(kDraws * 0.06)) << offset;
  }
}

TEST(PositionOffsets, AllExamplesReadTheShiftedRowsAndTheseLearn) {
  Tables t;
  EmbeddingKept kept;
  Mat x;
  Pass pass = pass_from(1, kRows - kLength + 1, 0);
  while (kept.first == 0) {
    ++pass.seed;
    embed(pass, t.tokens, t.positions, t.ids, kept, x);
  }
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    EXPECT_EQ(Mat(x.row(row)), t.row_of_position(kept.first + row % kLength)) << row;
  }
  Mat dx = random_mat(x.rows(), x.cols(), 3);
  const Mat given = dx;
  embed_backward(pass, t.tokens, t.positions, t.ids, kept, dx);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::int64_t at = row - kept.first;
    for (std::int64_t i = 0; i < kWidth; ++i) {
      float expected = 0;
      for (std::int64_t e = 0; at >= 0 && at < kLength && e < kExamples; ++e) {
        expected += given(e * kLength + at, i);
      }
      EXPECT_NEAR(t.position_gradient[std::size_t(row * kWidth + i)], expected, 1e-5) << row;
    }
  }
}

TEST(PositionOffsets, BehindTheTableIsRefused) {
  Tables t;
  EmbeddingKept kept;
  Mat x;
  const auto refusal = [&](std::uint64_t seed) {
    Pass pass = pass_from(seed, 1000, 0);
    return message_of([&] { embed(pass, t.tokens, t.positions, t.ids, kept, x); });
  };
  std::string message = "no error";
  for (std::uint64_t seed = 1; message == "no error"; ++seed) message = refusal(seed);
  expect_mentions(message, {"8 positions from", "max_length 40", "--max_length"});
}

// -- whole models ---------------------------------------------------------------------------------

ModelConfig small_terraformer() {
  ModelConfig c = config_of_shape("tiny");
  c.vocab_size = 13;
  c.encoder_layers = 0;
  c.decoder_layers = 2;
  c.residual_stack = ResidualStack::reversible;
  c.attention_layers = 2;
  c.recurrence = "sru";
  return c;
}

ModelConfig small_model(bool has_encoder) {
  ModelConfig c = config_of_shape("tiny");
  c.vocab_size = 13;
  c.encoder_layers = has_encoder ? 1 : 0;
  c.decoder_layers = 1;
  return c;
}

TrainConfig small_training(const std::string& task) {
  TrainConfig c;
  c.task = task;
  c.digits_min = 2;
  c.digits_max = 5;
  c.eval_digits_min = 6;
  c.eval_digits_max = 8;
  c.batch = 4;
  c.evaluate_batches = 2;
  c.steps = 6;
  c.optimizer = OptimizerKind::adam;
  c.schedule = Schedule::constant;
  c.learning_rate = 0.003;
  c.gemm = "eigen";
  return c;
}

struct Training {
  Training(const ModelConfig& model_config, const TrainConfig& config, const std::string& folder)
      : model(model_config), task(make_task(config, model_config.vocab_size, "/nowhere")) {
    set_gemm_threads(1);
    {
      Team team(1);
      model.allocate_for_training(team);
    }
    trainer = std::make_unique<Trainer>(model, *task, config, folder);
  }
  bool train(std::int64_t last = std::numeric_limits<std::int64_t>::max()) {
    return trainer->run(nullptr, [this, last] { return trainer->step() >= last; });
  }
  Parameter& named(const std::string& name) {
    for (Parameter* p : model.parameters()) {
      if (p->name == name) return *p;
    }
    ADD_FAILURE() << "no parameter " << name;
    return *model.parameters().front();
  }

  Transformer model;
  std::unique_ptr<Task> task;
  std::unique_ptr<Trainer> trainer;
};

/// Both tables' gradients against differences of the loss, both stacks starting where they drew.
TEST(PositionOffsets, GradientsAreTheSlopesOfTheLoss) {
  const Folder folder;
  const TrainConfig config = small_training("copy_pairs");
  Training run(small_model(true), config, folder / "run");
  const auto kept = run.model.make_activations();
  Batch batch;
  run.task->train_batch(0, 0, 1, batch);
  Pass pass = pass_from(1, 40, 0);
  const auto loss = [&] {
    pass.streams = 0;
    return run.model.loss_of(pass, batch, *kept).loss;
  };
  do {
    ++pass.seed;
    pass.streams = 0;
    run.model.zero_gradients();
    run.model.loss_and_gradients(pass, batch, 1, *kept);
  } while (kept->encoder.embedding.first == 0 || kept->decoder.embedding.first == 0 ||
           kept->encoder.embedding.first == kept->decoder.embedding.first);
  for (const char* name : {"encoder_positions", "decoder_positions"}) {
    Parameter& table = run.named(name);
    const std::int64_t first = (name[0] == 'e' ? kept->encoder : kept->decoder).embedding.first;
    const std::int64_t length = name[0] == 'e' ? batch.source_length : batch.input_length;
    const Mat gradient = Eigen::Map<const Mat>(table.gradient, table.rows, table.cols);
    EXPECT_EQ(gradient.topRows(first).cwiseAbs().maxCoeff(), 0);
    EXPECT_EQ(gradient.bottomRows(table.rows - first - length).cwiseAbs().maxCoeff(), 0);
    const Mat direction = gradient / gradient.norm();
    constexpr float kStep = 2e-3f;
    Eigen::Map<Mat> values(table.values(), table.rows, table.cols);
    const Mat before = values;
    values = before + kStep * direction;
    const double above = loss();
    values = before - kStep * direction;
    const double below = loss();
    values = before;
    const auto size = double(gradient.norm());
    EXPECT_GT(size, 0.1) << name;
    EXPECT_NEAR((above - below) / (2 * double(kStep)), size, 2e-2 * size) << name;
  }
}

TEST(PositionOffsets, EvaluationIsThatOfEachExampleAlone) {
  const Folder folder;
  for (const std::string task : {"copy", "addition_pairs"}) {
    TrainConfig config = small_training(task);
    config.position_offsets = 30;
    Training run(small_model(needs_of(config).has_source()), config, folder / task);
    Batch batch;
    run.task->validation_batch(0, 0, batch);
    const auto kept = run.model.make_activations();
    Pass pass = pass_from(1, 30, 0, false);
    const CrossEntropy together = run.model.loss_of(pass, batch, *kept);
    CrossEntropy apart;
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const auto part = [e, &batch](const auto& all) {
        const auto length = std::int64_t(all.size()) / batch.examples;
        return std::decay_t<decltype(all)>(all.begin() + e * length,
                                           all.begin() + (e + 1) * length);
      };
      Batch one = batch;
      one.examples = 1;
      one.source = part(batch.source);
      one.input = part(batch.input);
      one.target = part(batch.target);
      one.weights = part(batch.weights);
      Pass alone{.gemm = find_gemm("eigen")};
      const CrossEntropy loss = run.model.loss_of(alone, one, *kept);
      apart.loss += loss.loss;
      apart.weight += loss.weight;
    }
    EXPECT_EQ(together.weight, apart.weight);
    EXPECT_NEAR(together.loss, apart.loss, 1e-4 * apart.loss) << task;
  }
}

TEST(PositionOffsets, ATrainedRunReachesLaterRowsAndResumesBitForBit) {
  const Folder folder;
  const auto positions_after = [&](std::int64_t offsets, const std::string& name,
                                   const std::vector<std::int64_t>& stops) {
    TrainConfig config = small_training("copy");
    config.position_offsets = offsets;
    config.dropout = 0.1;
    std::vector<float> values;
    for (const std::int64_t stop : stops) {
      Training run(small_terraformer(), config, folder / name);
      run.trainer->resume();
      run.train(stop);
      Parameter& table = run.named("decoder_positions");
      values.assign(table.values(), table.values() + table.count());
    }
    return values;
  };
  constexpr std::int64_t kEnd = 100;
  const std::vector<float> fresh = positions_after(0, "fresh", {0});
  const std::vector<float> plain = positions_after(0, "plain", {kEnd});
  const std::vector<float> offset = positions_after(48, "offset", {kEnd});
  EXPECT_EQ(positions_after(48, "parts", {2, 3, kEnd}), offset);
  // Training examples have at most 2 * 5 + 2 positions, padded to 16.
  const auto moved_behind = [&fresh](const std::vector<float>& values) {
    const std::ptrdiff_t begin = 16 * small_terraformer().d_model;
    return !std::equal(values.begin() + begin, values.end(), fresh.begin() + begin);
  };
  EXPECT_NE(plain, fresh);
  EXPECT_FALSE(moved_behind(plain));
  EXPECT_TRUE(moved_behind(offset));
}

/// Digits in four bases in place of a table: their vectors learn, and whoever stops goes on alike.
TEST(PositionOffsets, DigitsAreTrainedAndResumeBitForBit) {
  const Folder folder;
  ModelConfig model = small_terraformer();
  model.position_encoding = PositionEncoding::fixed_base;
  TrainConfig config = small_training("copy");
  config.position_offsets = 200'000'000;
  config.start_from_zero = 0.5;
  const auto after = [&](const std::string& name, const std::vector<std::int64_t>& stops) {
    std::vector<float> values;
    for (const std::int64_t stop : stops) {
      Training run(model, config, folder / name);
      run.trainer->resume();
      run.train(stop);
      Parameter& vectors = run.named("decoder_positions");
      values.assign(vectors.values(), vectors.values() + vectors.count());
    }
    return values;
  };
  const std::vector<float> fresh = after("fresh", {0}), whole = after("whole", {6});
  EXPECT_EQ(after("parts", {2, 3, 6}), whole);
  const auto d = std::ptrdiff_t(model.d_model);
  ASSERT_EQ(std::ptrdiff_t(whole.size()), 5 * d);
  for (std::ptrdiff_t i = 0; i < 5; ++i) {
    EXPECT_FALSE(
        std::equal(whole.begin() + i * d, whole.begin() + (i + 1) * d, fresh.begin() + i * d))
        << i;
  }
}

TEST(PositionOffsets, TablesNeedRoomForTheLastStart) {
  TrainConfig config = small_training("copy");
  EXPECT_EQ(needs_of(config).positions(config), 24);  // evaluation: 2 * 8 + 2, padded
  config.position_offsets = 5;
  EXPECT_EQ(needs_of(config).positions(config), 24);  // training: 16 from 4 on
  config.position_offsets = 50;
  EXPECT_EQ(needs_of(config).positions(config), 16 + 49);
  const Folder folder;
  expect_mentions(message_of([&] { Training(small_model(false), config, folder / "run"); }),
                  {"65 positions", "position_offsets", "max_length 64"});
  config.position_offsets = 49;
  EXPECT_EQ(message_of([&] { Training(small_model(false), config, folder / "run"); }), "no error");
  TrainConfig text;
  text.length = 32;
  text.position_offsets = 10;
  EXPECT_EQ(needs_of(text).positions(text), 41);
  const auto refusal = [&text](const std::function<void(TrainConfig&)>& change) {
    TrainConfig changed = text;
    change(changed);
    return message_of([&] { changed.validate(); });
  };
  expect_mentions(refusal([](TrainConfig& c) { c.position_offsets = -1; }),
                  {"position_offsets -1"});
  expect_mentions(refusal([](TrainConfig& c) { c.position_offsets = std::int64_t(1) << 40; }),
                  {"position_offsets", "give fewer"});
  expect_mentions(refusal([](TrainConfig& c) { c.start_from_zero = 1.5; }),
                  {"start_from_zero 1.5", "0 to 1"});
}

}  // namespace
}  // namespace scaling
