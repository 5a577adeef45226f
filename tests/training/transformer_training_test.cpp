// Whole models in training: the batch is the examples, gradients are the loss's slopes, evaluation
// is the decode, and checkpoints come back or are refused.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/product.h"
#include "models/training/checkpoint.h"
#include "models/transformer/decoder.h"
#include "models/transformer/embedding.h"
#include "models/transformer/feed_forward_branch.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/live_bytes.h"

namespace scaling {
namespace {

constexpr int kThreads = 2;

enum class Kind { encoder_decoder, decoder_only };
const Kind kKinds[] = {Kind::encoder_decoder, Kind::decoder_only};

ModelConfig dense(Kind kind) {
  ModelConfig c = small_config();
  c.encoder_layers = kind == Kind::decoder_only ? 0 : 2;
  c.decoder_layers = 2;
  return c;
}

ModelConfig all_sparse(Kind kind) {
  ModelConfig c = dense(kind);
  c.feed_forward = "sparse";
  c.projection = "mult_conv";
  c.cross_projection = "mult_conv";
  c.loss = "multiplicative";
  return c;
}

/// Vectors away from their initial 1e-6, 1 and 0, so that each shows; the same for every storage.
void shake_vectors(Transformer& model) {
  Rng rng(11);
  model.visit_parameters([&](Parameter& p) {
    for (std::int64_t i = 0; p.is_vector && i < p.cols; ++i) {
      p.set(0, i, p.get(0, i) + rng.uniform(-0.3f, 0.3f));
    }
  });
}

std::unique_ptr<Transformer> trainable(const ModelConfig& config) {
  set_gemm_threads(kThreads);
  auto model = std::make_unique<Transformer>(config);
  Team team(kThreads);
  model->allocate_for_training(team);
  shake_vectors(*model);
  return model;
}

/// Three examples of different lengths, the ends padded.
struct Examples {
  std::vector<std::vector<int>> sources, targets;
  Batch batch;
};

Examples examples(const ModelConfig& c) {
  Examples e;
  Rng ids(3);
  const auto draw = [&](int n) {
    std::vector<int> drawn;
    for (int i = 0; i < n; ++i)
      drawn.push_back(1 + int(ids.below(std::uint32_t(c.vocab_size - 1))));
    return drawn;
  };
  e.sources = {draw(7), draw(4), draw(6)};
  e.targets = {draw(9), draw(9), draw(5)};
  Batch& b = e.batch;
  b.examples = 3;
  b.source_length = c.decoder_only() ? 0 : 7;
  b.input_length = 9;
  b.source.assign(std::size_t(b.examples * b.source_length), 0);
  b.target.assign(std::size_t(b.examples * b.input_length), 0);
  b.weights.assign(b.target.size(), 0.0f);
  for (std::size_t i = 0; i < 3; ++i) {
    if (!c.decoder_only()) {
      std::copy(e.sources[i].begin(), e.sources[i].end(),
                b.source.begin() + std::ptrdiff_t(i) * b.source_length);
    }
    for (std::size_t t = 0; t < e.targets[i].size(); ++t) {
      b.target[i * 9 + t] = e.targets[i][t];
      b.weights[i * 9 + t] = 1;
    }
  }
  shift_right(b.target, b.examples, b.input);
  return e;
}

Pass pass_of(bool training, float dropout = 0) {
  return {.gemm = find_gemm("eigen"), .training = training, .dropout = dropout, .seed = 5};
}

// Masks are a function of the element's place in its stream, wherever a call begins and ends.
TEST(DropoutTest, AnElementsFateIsItsOwnDraw) {
  constexpr std::uint64_t kStream = 3;
  const Pass pass = pass_of(true, 0.25f);
  std::int64_t dropped = 0, elements = 0;
  for (const std::int64_t first : {0, 1, 2, 3, 4, 67, 1000}) {
    for (const std::int64_t n : {1, 3, 4, 61, 64, 65, 200}) {
      std::vector<float> values(std::size_t(n), 2.0f);
      drop(pass, kStream, first, n, values.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = first + i;
        const auto bits = random_bits(pass.seed, kStream, std::uint64_t(at / 4));
        const bool kept = double(bits[std::size_t(at % 4)]) >= 0.25 * 4294967296.0;
        ASSERT_EQ(values[std::size_t(i)], kept ? 2 * pass.kept_scale() : 0) << first << " " << i;
        dropped += !kept;
        ++elements;
      }
    }
  }
  EXPECT_NEAR(double(dropped) / double(elements), 0.25, 0.05);
}

CrossEntropy evaluated(const Transformer& model, const Batch& batch) {
  Pass pass = pass_of(false);
  return model.loss_of(pass, batch, *model.make_activations());
}

/// -log softmax(logits)[target], in double.
double cross_entropy_of(const Mat& logits, const std::vector<int>& target) {
  double loss = 0;
  for (std::int64_t t = 0; t < logits.rows(); ++t) {
    const auto row = logits.row(t).cast<double>().array();
    const double largest = row.maxCoeff();
    loss += std::log((row - largest).exp().sum()) + largest - row(target[std::size_t(t)]);
  }
  return loss;
}

TEST(TransformerTraining, ABatchIsItsExamplesWithoutTheirPadding) {
  for (const Kind kind : kKinds) {
    for (const ModelConfig& config : {dense(kind), all_sparse(kind)}) {
      const auto model = trainable(config);
      const Examples e = examples(config);
      double expected = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        expected += cross_entropy_of(model->forward(e.sources[i], e.targets[i]), e.targets[i]);
      }
      const CrossEntropy loss = evaluated(*model, e.batch);
      EXPECT_EQ(loss.weight, 9 + 9 + 5);
      EXPECT_NEAR(loss.loss, expected, 1e-4 * expected) << config.projection;
      EXPECT_GT(loss.loss / loss.weight, 1);
    }
  }
}

TEST(TransformerTraining, EvaluationChangesNoGradientAndScaleScales) {
  const ModelConfig config = dense(Kind::encoder_decoder);
  const auto model = trainable(config);
  const Examples e = examples(config);
  const auto kept = model->make_activations();
  evaluated(*model, e.batch);
  Parameter& table = *model->parameters().front();
  const Eigen::Map<const Mat> gradient(table.gradient, table.rows, table.cols);
  EXPECT_EQ(gradient.cwiseAbs().maxCoeff(), 0);
  Pass pass = pass_of(true);
  model->loss_and_gradients(pass, e.batch, 1, *kept);
  const Mat once = gradient;
  EXPECT_GT(once.cwiseAbs().maxCoeff(), 0);
  // Half as much again is added.
  model->loss_and_gradients(pass, e.batch, 0.5f, *kept);
  EXPECT_LE((gradient - 1.5f * once).cwiseAbs().maxCoeff(), 1e-5f * once.cwiseAbs().maxCoeff());
  model->zero_gradients();
  EXPECT_EQ(gradient.cwiseAbs().maxCoeff(), 0);
}

/// Moves `parameters` by `step` along +-1 of their own streams.
void nudge(const std::vector<Parameter*>& parameters, std::uint64_t stream, float step) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Rng signs(stream, i);
    float* values = parameters[i]->values();
    for (std::int64_t j = 0; j < parameters[i]->count(); ++j) {
      values[j] += signs.bits() & 1u ? step : -step;
    }
  }
}

struct Slope {
  double backward = 0, size = 0;  // gradient times direction; norm of the gradient
};

Slope slope_along(const std::vector<Parameter*>& parameters, std::uint64_t stream) {
  Slope slope;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Rng signs(stream, i);
    for (std::int64_t j = 0; j < parameters[i]->count(); ++j) {
      const double g = double(parameters[i]->gradient[j]);
      slope.backward += signs.bits() & 1u ? g : -g;
      slope.size += g * g;
    }
  }
  slope.size = std::sqrt(slope.size);
  return slope;
}

/// Along a random direction in `parameters`, both sides' loss against the gradient.
void expect_slope(const Transformer& model, const Batch& batch,
                  const std::vector<Parameter*>& parameters, std::uint64_t stream,
                  const std::string& what) {
  constexpr float kStep = 1e-3f;
  const Slope slope = slope_along(parameters, stream);
  std::vector<Mat> before;
  for (const Parameter* p : parameters) before.push_back(p->matrix());
  double losses[2];
  for (const int side : {0, 1}) {
    nudge(parameters, stream, side == 0 ? kStep : -kStep);
    losses[side] = evaluated(model, batch).loss;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::copy_n(before[i].data(), before[i].size(), parameters[i]->values());
    }
  }
  const double measured = (losses[0] - losses[1]) / (2 * double(kStep));
  // The slope along random signs is of the order of the gradient's norm. The constant is the
  // rounding of two losses of some hundred nats in f32.
  EXPECT_NEAR(slope.backward, measured, 1e-2 * slope.size + 2e-2) << what;
}

/// Half of the neurons clearly on and half clearly off: no step of a difference crosses a ReLU's
/// kink, where slopes jump.
void leave_kinks(Transformer& model) {
  model.visit_parameters([](Parameter& p) {
    if (p.name.find("feed_forward.b1") == std::string::npos) return;
    for (std::int64_t i = 0; i < p.cols; ++i) p.set(0, i, i % 2 == 0 ? 5.0f : -5.0f);
  });
}

TEST(TransformerTraining, GradientsAreTheSlopesOfTheLoss) {
  for (const Kind kind : kKinds) {
    const ModelConfig config = dense(kind);
    const auto model = trainable(config);
    leave_kinks(*model);
    const Examples e = examples(config);
    const auto kept = model->make_activations();
    Pass pass = pass_of(true);
    model->loss_and_gradients(pass, e.batch, 1, *kept);
    const std::vector<Parameter*> all = model->parameters();
    for (std::uint64_t stream = 1; stream <= 3; ++stream) {
      expect_slope(*model, e.batch, all, stream, "all parameters");
    }
    double smallest = 1e9;
    for (Parameter* p : all) {
      const Slope slope = slope_along({p}, 9);
      // Softmax does not see what the same number adds to all its logits.
      const bool is_unseen = p->name.find("k_bias") != std::string::npos;
      if (!is_unseen) smallest = std::min(smallest, slope.size);
      expect_slope(*model, e.batch, {p}, 9, p->name);
    }
    EXPECT_GT(smallest, 1e-4) << "a parameter has no gradient to speak of";
  }
}

TEST(TransformerTraining, TheSameCallGivesTheSameBits) {
  for (const Kind kind : kKinds) {
    const ModelConfig config = all_sparse(kind);
    const auto model = trainable(config);
    const Examples e = examples(config);
    const auto kept = model->make_activations();
    std::vector<std::vector<float>> runs;
    std::vector<double> losses;
    for (int run = 0; run < 3; ++run) {
      model->zero_gradients();
      Pass pass = pass_of(true, 0.1f);
      if (run == 2) pass.seed = 6;
      losses.push_back(model->loss_and_gradients(pass, e.batch, 1, *kept).loss);
      std::vector<float> gradients;
      for (const Parameter* p : model->parameters()) {
        if (p->gradient) gradients.insert(gradients.end(), p->gradient, p->gradient + p->count());
      }
      runs.push_back(gradients);
    }
    EXPECT_EQ(losses[0], losses[1]);
    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_NE(losses[0], losses[2]) << "another seed draws the same";
  }
}

TEST(TransformerTraining, EmbeddingDropoutKeepsTheMeanAndItsOwnMask) {
  constexpr std::int64_t kLength = 64, kWidth = 48;
  Parameter tokens =
      Parameter::make_matrix("tokens", 4, kWidth, Layout::rows, {Initializer::Kind::constant, 1});
  PositionVectors positions = {PositionEncoding::table,
                               Parameter::make_matrix("positions", kLength, kWidth, Layout::rows,
                                                      {Initializer::Kind::constant, 0})};
  const std::vector<Parameter*> both = {&tokens, &positions.weights};
  Arena arena(arena_bytes(both, WeightType::f32));
  Team team(1);
  initialize(both, WeightType::f32, 1, arena, team);
  const std::vector<int> ids(std::size_t(2 * kLength), 3);
  EmbeddingKept kept;
  Mat x;
  Pass pass = pass_of(true, 0.25f);
  pass.examples = 2;
  embed(pass, tokens, positions, ids, kept, x);
  EXPECT_NEAR(x.mean(), 1, 0.03);
  Mat dx = Mat::Ones(x.rows(), x.cols());
  std::vector<float> gradient(std::size_t(tokens.count()), 0.0f);
  tokens.gradient = gradient.data();
  embed_backward(pass, tokens, positions, ids, kept, dx);
  // The table is 1 everywhere, so the output is the mask, and so is the gradient.
  EXPECT_EQ(dx, x);
  const Eigen::RowVectorXf sums = x.colwise().sum();
  for (std::int64_t i = 0; i < kWidth; ++i) {
    EXPECT_EQ(gradient[std::size_t(i)], 0);
    EXPECT_NEAR(gradient[std::size_t(3 * kWidth + i)], sums(i), 1e-3);
  }
  // Positions lose whole features.
  positions.weights.init.scale = 1;
  tokens.init.scale = 0;
  Arena second(arena_bytes(both, WeightType::f32));
  initialize(both, WeightType::f32, 1, second, team);
  embed(pass, tokens, positions, ids, kept, x);
  for (std::int64_t i = 0; i < kWidth; ++i) {
    EXPECT_TRUE(x(0, i) == 0 || std::abs(x(0, i) - 1 / 0.75f) < 1e-6f);
    EXPECT_EQ(x.col(i).minCoeff(), x.col(i).maxCoeff());
  }
  EXPECT_EQ(x.minCoeff(), 0);
}

/// Whether a column is zero in all rows of an example or in none, and in one example alone.
void expect_masks_of_two_examples(const Mat& x) {
  const std::int64_t length = x.rows() / 2;
  bool differ = false;
  for (std::int64_t i = 0; i < x.cols(); ++i) {
    std::array<bool, 2> dropped{};
    for (std::size_t example = 0; example < 2; ++example) {
      const auto column = x.col(i).segment(std::int64_t(example) * length, length).array();
      dropped[example] = column(0) == 0;
      EXPECT_EQ((column == 0).count(), dropped[example] ? length : 0) << "column " << i;
    }
    differ |= dropped[0] != dropped[1];
  }
  EXPECT_TRUE(differ);
}

TEST(TransformerTraining, PositionsOfAReversibleStackShareDropoutMasks) {
  ModelConfig config = dense(Kind::decoder_only);
  config.residual_stack = ResidualStack::reversible;
  FeedForwardBranch branch(config, "");
  const auto kept = branch.make_activations();
  std::vector<Parameter*> parameters;
  branch.visit_parameters([&](Parameter& p) { parameters.push_back(&p); });
  Parameter tokens = Parameter::make_matrix("tokens", 1, config.d_model, Layout::rows,
                                            {Initializer::Kind::constant, 1});
  PositionVectors positions = {PositionEncoding::table,
                               Parameter::make_matrix("positions", 8, config.d_model, Layout::rows,
                                                      {Initializer::Kind::constant, 0})};
  parameters.insert(parameters.end(), {&tokens, &positions.weights});
  Arena arena(arena_bytes(parameters, WeightType::f32));
  Team team(1);
  initialize(parameters, WeightType::f32, 1, arena, team);
  Pass pass = pass_of(true, 0.25f);
  pass.examples = 2;

  const Mat x = Mat::Random(16, config.d_model), zero = Mat::Zero(16, config.d_model);
  BranchScratch scratch;
  Mat y;
  branch.forward(pass, {}, x, zero, 1, *kept, scratch, y);
  expect_masks_of_two_examples(y);

  EmbeddingKept embedded;
  embedded.masks = DropoutMask::per_example;
  embed(pass, tokens, positions, std::vector<int>(16, 0), embedded, y);
  expect_masks_of_two_examples(y);
  std::vector<float> gradient(std::size_t(tokens.count()), 0.0f);
  tokens.gradient = gradient.data();
  Mat dy = Mat::Ones(16, config.d_model);
  embed_backward(pass, tokens, positions, std::vector<int>(16, 0), embedded, dy);
  EXPECT_EQ(dy, y);
}

CheckpointInfo some_info(const ModelConfig& config) {
  CheckpointInfo info;
  info.step = 1234567890123;
  info.model = config;
  info.training = "{\"tokenizer\": \"bytes\"}\n";
  info.fingerprint = "f00d";
  return info;
}

TEST(TransformerTraining, DecodingIsEvaluation) {
  for (const Kind kind : kKinds) {
    for (const ModelConfig& config : {dense(kind), all_sparse(kind)}) {
      const Folder folder;
      const auto trained = trainable(config);
      const Examples e = examples(config);
      save_checkpoint(folder / "a", some_info(config), weight_arrays(trained->parameters()));
      Transformer model(config);
      Team team(kThreads);
      model.allocate(team);
      load_weights(folder / "a", model.parameters());
      CrossEntropy sums;
      for (std::size_t i = 0; i < 3; ++i) {
        Decoder decoder(model, find_kernel_set("simd"), team, 1, 9,
                        std::int64_t(e.sources[i].size()));
        const std::vector<float> weights(e.targets[i].size(), 1.0f);
        const CrossEntropy one = decode_cross_entropy(decoder, e.sources[i], e.targets[i], weights);
        EXPECT_DOUBLE_EQ(decode_log_perplexity(decoder, e.sources[i], e.targets[i], weights),
                         one.loss / one.weight);
        sums.loss += one.loss;
        sums.weight += one.weight;
        sums.correct += one.correct;
      }
      const CrossEntropy expected = evaluated(*trained, e.batch);
      EXPECT_EQ(sums.weight, expected.weight);
      EXPECT_EQ(sums.correct, expected.correct);
      EXPECT_NEAR(sums.loss / sums.weight, expected.loss / expected.weight, 1e-4);
    }
  }
}

TEST(TransformerTraining, DecoderOnlyModelsHaveNoEncoderAndNoCrossAttention) {
  const ModelConfig config = dense(Kind::decoder_only);
  ASSERT_TRUE(config.decoder_only());
  Transformer model(config);
  std::int64_t visited = 0;
  model.visit_parameters([&](Parameter& p) {
    visited += p.count();
    EXPECT_EQ(p.name.find("cross"), std::string::npos) << p.name;
    EXPECT_EQ(p.name.find("encoder"), std::string::npos) << p.name;
  });
  const std::int64_t d = config.d_model, f = config.d_ff, v = config.vocab_size;
  const std::int64_t block = 2 * 2 * d + 4 * (d * d + d) + 2 * d * f + f + d;
  EXPECT_EQ(visited, v * d + config.max_length * d + 2 * block + 2 * d + v * d + v);
  EXPECT_EQ(model.parameter_count(), visited);
  const double read = total(model.block_cost(1, 4, 16)).weights;
  EXPECT_EQ(read, double(4 * (d * d + d) + 2 * d * f + f + d));
  // encoder = false still stands for a decoder that attends to drawn vectors.
  ModelConfig drawn = config;
  drawn.encoder = false;
  EXPECT_FALSE(drawn.decoder_only());
  EXPECT_GT(Transformer(drawn).parameter_count(), visited);
  Team team(1);
  EXPECT_NE(message_of([&] { Transformer(drawn).allocate_for_training(team); }), "no error");
}

#ifdef SCALING_COUNTS_ALLOCATIONS

/// What the estimate of a curve's memory is made of, against what a step leaves allocated.
TEST(TransformerTraining, ActivationsAreAboutWhatIsHeld) {
  for (const char* stack : {"plain", "reversible"}) {
    for (const char* feed_forward : {"dense", "sparse"}) {
      for (const char* attention : {"full", "lsh"}) {
        ModelConfig c = config_of_shape("tiny");
        c.max_length = 512;
        c.decoder_layers = 3;
        set_field(c, "residual_stack", stack);
        set_field(c, "feed_forward", feed_forward);
        set_field(c, "attention", attention);
        const auto model = trainable(c);
        set_gemm_threads(1);
        Batch b;
        b.examples = 2;
        b.source_length = 300;
        b.input_length = 500;
        b.source.assign(std::size_t(b.examples * b.source_length), 3);
        b.target.assign(std::size_t(b.examples * b.input_length), 3);
        shift_right(b.target, b.examples, b.input);
        b.weights.assign(b.target.size(), 1.0f);
        const auto held = [&] {
          const std::int64_t before = live_bytes();
          const auto kept = model->make_activations();
          Pass pass = pass_of(true);
          model->loss_and_gradients(pass, b, 1, *kept);
          return double(live_bytes() - before);
        };
        held();  // what stays for good is there
        const double said = model->activation_bytes(2, 300, 500);
        EXPECT_NEAR(held(), said, 0.35 * said) << stack << " " << feed_forward << " " << attention;
      }
    }
  }
}

#endif

/// Losses by example are those of a batch in parts; what is encoded already is encoded no other
/// way.
TEST(TransformerTraining, LossesByExampleAreTheBatchsInParts) {
  ModelConfig hashed = dense(Kind::encoder_decoder), reversible = hashed;
  set_field(hashed, "attention", "lsh");
  set_field(hashed, "lsh_chunk", "4");
  set_field(reversible, "residual_stack", "reversible");
  set_field(reversible, "source", "concatenated");
  for (const ModelConfig& c : {dense(Kind::encoder_decoder), all_sparse(Kind::encoder_decoder),
                               dense(Kind::decoder_only), hashed, reversible}) {
    const auto model = trainable(c);
    const auto kept = model->make_activations();
    const Examples e = examples(c);
    const auto losses_of = [&](const Batch& batch, bool is_encoded) {
      Pass pass = pass_of(false);
      return model->losses_by_example(pass, batch, *kept, is_encoded);
    };
    const std::vector<double> losses = losses_of(e.batch, false);
    ASSERT_EQ(losses.size(), 3u);
    EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-3);
    const CrossEntropy whole = evaluated(*model, e.batch);
    EXPECT_NEAR(losses[0] + losses[1] + losses[2], whole.loss, 1e-9 * whole.loss);
    for (std::size_t i = 0; c.attention == "full" && i < 3; ++i) {
      const Mat logits = model->forward(e.sources[i], e.targets[i]);
      const double alone = cross_entropy_of(logits, e.targets[i]);
      EXPECT_NEAR(losses[i], alone, 1e-4 * alone) << i;
    }
    if (c.decoder_only()) continue;
    Batch other = e.batch;
    std::rotate(other.target.begin(), other.target.begin() + 4, other.target.end());
    shift_right(other.target, other.examples, other.input);
    const std::vector<double> reused = losses_of(other, true);
    EXPECT_EQ(reused, losses_of(other, false));
    EXPECT_NE(reused, losses);
  }
}

TEST(TransformerTraining, FlopsAreThreeTimesTheProducts) {
  const ModelConfig config = dense(Kind::decoder_only);
  const double d = double(config.d_model), f = double(config.d_ff), v = double(config.vocab_size);
  const double rows = 3 * 8, pairs = 3 * 8 * 9 / 2.0;
  const double forward = rows * (2 * (8 * d * d + 4 * d * f) + 2 * d * v) + 2 * pairs * 4 * d;
  EXPECT_DOUBLE_EQ(Transformer(config).training_flops(3, 0, 8), 3 * forward);
  // Every neuron of the sparse layer is multiplied in training's soft calls, in hard ones 1/N.
  ModelConfig sparse = config;
  sparse.feed_forward = "sparse";
  set_field(sparse, "hard_probability", "0");
  EXPECT_GT(Transformer(sparse).training_flops(3, 0, 8), 3 * forward);
  set_field(sparse, "hard_probability", "1");
  EXPECT_LT(Transformer(sparse).training_flops(3, 0, 8), 3 * forward);
}

TEST(TransformerTraining, RefusesWhatItCannotTrain) {
  Team team(1);
  ModelConfig config = dense(Kind::encoder_decoder);
  config.weight_type = WeightType::bf16;
  expect_mentions(message_of([&] { Transformer(config).allocate_for_training(team); }),
                  {"bf16", "--weight_type f32"});
  config = dense(Kind::encoder_decoder);
  config.blocks = 1;
  expect_mentions(message_of([&] { Transformer(config).allocate_for_training(team); }),
                  {"1 of decoder_layers 2"});
  config = dense(Kind::decoder_only);
  const auto model = trainable(config);
  Batch batch;
  batch.examples = 1;
  batch.input_length = config.max_length + 1;
  batch.target.assign(std::size_t(batch.input_length), 1);
  batch.weights.assign(batch.target.size(), 1.0f);
  shift_right(batch.target, 1, batch.input);
  expect_mentions(message_of([&] { evaluated(*model, batch); }), {"65", "64", "--max_length"});
}

std::vector<float> weights_of(Transformer& model) {
  std::vector<float> all;
  for (Parameter* p : model.parameters()) {
    const Mat m = p->matrix();
    all.insert(all.end(), m.data(), m.data() + m.size());
  }
  return all;
}

TEST(Checkpoint, ComesBackInEveryStorage) {
  const Folder folder;
  const std::string path = folder / "latest.ckpt";
  ModelConfig config = all_sparse(Kind::encoder_decoder);
  const auto saved = trainable(config);
  std::vector<float> extra = {1, 2, 3, 4, 5, 6};
  std::vector<NamedArray> arrays = weight_arrays(saved->parameters());
  arrays.push_back({"optimizer.extra", {2, 3}, extra.data()});
  save_checkpoint(path, some_info(config), arrays);

  const CheckpointInfo info = read_checkpoint_info(path);
  EXPECT_EQ(info.step, 1234567890123);
  EXPECT_EQ(info.training, "{\"tokenizer\": \"bytes\"}\n");
  EXPECT_EQ(info.fingerprint, "f00d");
  for (const std::string& field : field_names()) {
    EXPECT_EQ(get_field(info.model, field), get_field(config, field)) << field;
  }

  const std::vector<float> weights = weights_of(*saved);
  for (NamedArray& array : arrays) {
    std::int64_t count = 1;
    for (const std::int64_t n : array.shape) count *= n;
    std::fill_n(array.values, count, 0.0f);
  }
  load_checkpoint(path, arrays);
  EXPECT_EQ(weights_of(*saved), weights);
  EXPECT_EQ(extra, (std::vector<float>{1, 2, 3, 4, 5, 6}));

  for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
    config.weight_type = type;
    config.seed = 99;
    Transformer decoding(config);
    Team team(kThreads);
    decoding.allocate(team);
    load_weights(path, decoding.parameters());
    const std::vector<float> loaded = weights_of(decoding);
    ASSERT_EQ(loaded.size(), weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const float tolerance = type == WeightType::f32 ? 0.0f : std::abs(weights[i]) / 128;
      ASSERT_NEAR(loaded[i], weights[i], tolerance) << i;
    }
  }
}

TEST(Checkpoint, OthersAreRefusedByNameAndTouchNothing) {
  const Folder folder;
  const std::string path = folder / "latest.ckpt";
  const ModelConfig config = dense(Kind::decoder_only);
  const auto model = trainable(config);
  save_checkpoint(path, some_info(config), weight_arrays(model->parameters()));
  const std::string whole = contents(path);
  const std::vector<float> weights = weights_of(*model);
  const auto refused = [&](const std::vector<std::string>& words) {
    const auto arrays = weight_arrays(model->parameters());
    for (const auto& action : std::vector<std::function<void()>>{
             [&] { read_checkpoint_info(path); }, [&] { load_checkpoint(path, arrays); },
             [&] { load_weights(path, model->parameters()); }}) {
      expect_mentions(message_of(action), words);
      expect_mentions(message_of(action), {path});
    }
    EXPECT_EQ(weights_of(*model), weights);
  };
  const auto put = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  const std::size_t step = whole.size() / 37;
  for (std::size_t at = 24; at < whole.size(); at += step) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 0x10);
    put(flipped);
    refused({"damaged"});
    put(whole.substr(0, at));
    refused({"damaged"});
  }
  put(whole + "x");
  refused({"damaged"});
  put("SCALCKPT" + whole.substr(8));
  refused({"version 1", "python3 tools/convert_checkpoint.py"});
  put("step,loss\n1,2\n");
  refused({"is no checkpoint"});
  put("");
  refused({"is no checkpoint"});
  std::filesystem::remove(path);
  refused({"does not exist"});
  std::filesystem::create_directory(path);
  refused({"is no file"});
}

TEST(Checkpoint, OtherShapesAreRefusedByName) {
  const Folder folder;
  const std::string path = folder / "latest.ckpt";
  const ModelConfig config = dense(Kind::decoder_only);
  const auto model = trainable(config);
  save_checkpoint(path, some_info(config), weight_arrays(model->parameters()));
  ModelConfig wider = config, deeper = config, shallower = config;
  wider.d_ff += 8;
  deeper.decoder_layers = 3;
  shallower.decoder_layers = 1;
  const auto load = [&](const ModelConfig& other, bool only_weights) {
    const auto loaded = trainable(other);
    return message_of([&] {
      if (only_weights) {
        load_weights(path, loaded->parameters());
      } else {
        load_checkpoint(path, weight_arrays(loaded->parameters()));
      }
    });
  };
  for (const bool only_weights : {false, true}) {
    expect_mentions(load(wider, only_weights), {path, "feed_forward.w1", "96 x 48", "104 x 48"});
    expect_mentions(load(deeper, only_weights), {path, "decoder.2."});
  }
  expect_mentions(load(shallower, false), {path, "decoder.1.", "lacks"});
}

TEST(Checkpoint, AFullDiskLeavesTheOldOne) {
  const Folder folder;
  const std::string path = folder / "latest.ckpt";
  std::vector<float> values(100000, 1.0f);
  const std::vector<NamedArray> arrays = {{"values", {100000}, values.data()}};
  save_checkpoint(path, some_info(ModelConfig()), arrays);
  const std::string old = contents(path);
  values.assign(values.size(), 2.0f);
  // What a killed run left does not stay for ever.
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  std::ofstream(path + ".tmp-" + host + "-999999999-0") << "half";

  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 200000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of([&] { save_checkpoint(path, some_info({}), arrays); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);

  expect_mentions(message, {"1234567890123", path, "still there"});
  EXPECT_EQ(contents(path), old);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

}  // namespace
}  // namespace scaling
