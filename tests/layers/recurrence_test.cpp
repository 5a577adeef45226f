// The recurrence beside the feed-forward: the formula in plain loops, step against forward, batches
// against their examples, no look ahead, sizes, and its place in a block. Its gradients are held
// to finite differences with every other component's (gradient_test) and to PyTorch's
// (gradient_fixture_test).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/gemm.h"
#include "models/layers/catalog.h"
#include "models/transformer/decoder.h"
#include "models/transformer/transformer.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/model_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kPositions = 9;

ModelConfig config_of_width(std::int64_t width) {
  ModelConfig c = small_config();
  c.recurrence = "sru";
  set_field(c, "recurrence_width", width);
  return c;
}

/// Widths of whole vectors and not; one that leaves threads without units.
const std::int64_t kWidths[] = {32, 7, 1};

std::vector<std::string> implementations() {
  std::vector<std::string> all;
  for (const std::string& name : implementations_of("recurrence")) {
    if (name != "none") all.push_back(name);
  }
  return all;
}

class RecurrenceTest : public testing::TestWithParam<std::string> {};

TEST_P(RecurrenceTest, StepIsForward) {
  for (const std::int64_t width : kWidths) {
    const ModelConfig c = config_of_width(width);
    for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
      const Held<Recurrence> held(make_recurrence(GetParam(), c), type);
      const Recurrence& layer = *held.layer;
      for (const int threads : {1, 2, 3}) {
        for (const int tokens : {1, 3}) {
          std::vector<Mat> x, y;
          for (int token = 0; token < tokens; ++token) {
            x.push_back(random_mat(kPositions, c.d_model, 10 + std::uint64_t(token)));
            y.push_back(Mat::Zero(kPositions, c.d_model));
          }
          const auto state = layer.make_state(tokens);
          Mat in, out(tokens, c.d_model);
          const Stepper stepper{find_kernel_set("simd"), threads, tokens,
                                layer.workspace_floats(tokens, threads)};
          stepper.run(
              kPositions,
              [&](std::int64_t position) {
                in = rows_at(x, position);
                out.setConstant(1e30f);
              },
              [&](const StepContext& ctx) { layer.step(ctx, state.get(), in.data(), out.data()); },
              [&](std::int64_t position) {
                for (std::size_t token = 0; token < y.size(); ++token) {
                  y[token].row(position) = out.row(std::int64_t(token));
                }
              });
          for (std::size_t token = 0; token < y.size(); ++token) {
            expect_close(y[token], layer.forward(x[token]),
                         "width " + std::to_string(width) + " " + name_of(type) + " threads " +
                             std::to_string(threads) + " token " + std::to_string(token));
          }
        }
      }
    }
  }
}

/// Rows that go on from one another between steps are sequences that were always apart.
TEST_P(RecurrenceTest, RowsGoOnFromOthers) {
  constexpr int kRows = 4;
  for (const std::int64_t width : kWidths) {
    const ModelConfig c = config_of_width(width);
    const Held<Recurrence> held(make_recurrence(GetParam(), c), WeightType::f32);
    const Recurrence& layer = *held.layer;
    const Sources sources = draw_sources(kPositions, kRows, 17);
    for (const int threads : {1, 2, 3}) {
      std::vector<Mat> x, y;
      for (int row = 0; row < kRows; ++row) {
        x.push_back(random_mat(kPositions, c.d_model, 40 + std::uint64_t(row)));
        y.push_back(Mat::Zero(kPositions, c.d_model));
      }
      const auto state = layer.make_state(kRows);
      Mat in, out(kRows, c.d_model);
      const Stepper stepper{find_kernel_set("simd"), threads, kRows,
                            layer.workspace_floats(kRows, threads)};
      stepper.run(
          kPositions, [&](std::int64_t position) { in = rows_at(x, position); },
          [&](const StepContext& ctx) {
            go_on(ctx, state.get(), &sources);
            layer.step(ctx, state.get(), in.data(), out.data());
          },
          [&](std::int64_t position) {
            for (int row = 0; row < kRows; ++row) {
              y[std::size_t(row)].row(position) = out.row(row);
            }
          });
      const std::vector<Mat> ours = pasts_of(y, sources), given = pasts_of(x, sources);
      for (std::size_t row = 0; row < ours.size(); ++row) {
        expect_close(ours[row], layer.forward(given[row]),
                     "width " + std::to_string(width) + " threads " + std::to_string(threads) +
                         " row " + std::to_string(row));
      }
    }
  }
}

/// Forward and backward of a batch are those of its examples, whatever the threads.
TEST_P(RecurrenceTest, ABatchIsItsExamples) {
  const std::int64_t examples = 3;
  for (const std::int64_t width : kWidths) {
    for (const std::int64_t length : {1, 2, 8}) {
      for (const int threads : {1, 2, 3}) {
        SCOPED_TRACE("width " + std::to_string(width) + ", length " + std::to_string(length) +
                     ", threads " + std::to_string(threads));
        set_gemm_threads(threads);
        const ModelConfig c = config_of_width(width);
        TrainedLayer<Recurrence> held(make_recurrence(GetParam(), c));
        const Mat x = random_mat(examples * length, c.d_model, 21);
        const Mat dy = random_mat(examples * length, c.d_model, 22);
        Mat y, dx;
        Pass pass = training_pass(examples);
        const auto kept = held.layer->make_activations();
        held.layer->forward(pass, x, *kept, y);
        held.layer->backward(pass, x, *kept, dy, dx);
        std::vector<Mat> gradients;
        for (const Parameter* p : held.parameters) gradients.push_back(held.gradient(p->name));

        held.zero_gradients();
        set_gemm_threads(1);
        Mat expected_y = Mat::Zero(y.rows(), y.cols()), expected_dx = expected_y;
        const auto one = held.layer->make_activations();
        for (std::int64_t e = 0; e < examples; ++e) {
          Pass alone = training_pass(1);
          const Mat own_x = x.middleRows(e * length, length);
          const Mat own_dy = dy.middleRows(e * length, length);
          Mat own_y, own_dx;
          held.layer->forward(alone, own_x, *one, own_y);
          held.layer->backward(alone, own_x, *one, own_dy, own_dx);
          expected_y.middleRows(e * length, length) = own_y;
          expected_dx.middleRows(e * length, length) = own_dx;
        }
        expect_close(y, expected_y, "y");
        expect_close(dx, expected_dx, "dx");
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          const std::string& name = held.parameters[i]->name;
          expect_close(gradients[i], held.gradient(name), name);
        }
      }
    }
  }
}

TEST_P(RecurrenceTest, LooksAtNoLaterPositionAndAtEveryEarlierOne) {
  set_gemm_threads(1);
  const ModelConfig c = config_of_width(32);
  const TrainedLayer<Recurrence> held(make_recurrence(GetParam(), c));
  Mat x = random_mat(kPositions, c.d_model, 31);
  const Mat before = held.layer->forward(x);
  const std::int64_t changed = 3;
  x.row(changed) = random_mat(1, c.d_model, 32);
  const Mat after = held.layer->forward(x);
  EXPECT_TRUE(before.topRows(changed) == after.topRows(changed));
  for (std::int64_t t = changed; t < kPositions; ++t) {
    EXPECT_GT((before.row(t) - after.row(t)).cwiseAbs().maxCoeff(), 1e-6f) << t;
  }
}

/// What a forward kept of a longer batch does not reach a later one.
TEST_P(RecurrenceTest, ActivationsServeBatchAfterBatch) {
  set_gemm_threads(1);
  const ModelConfig c = config_of_width(32);
  const TrainedLayer<Recurrence> held(make_recurrence(GetParam(), c));
  const auto kept = held.layer->make_activations();
  const Mat x = random_mat(2 * kPositions, c.d_model, 33), dy = random_mat(x.rows(), x.cols(), 34);
  Pass pass = training_pass(2);
  Mat y, dx, other_y, other_dx;
  held.layer->forward(pass, x, *kept, y);
  held.layer->backward(pass, x, *kept, dy, dx);
  Pass other = training_pass(3);
  const Mat other_x = random_mat(3 * 17, c.d_model, 35);
  held.layer->forward(other, other_x, *kept, other_y);
  held.layer->backward(other, other_x, *kept, other_x, other_dx);
  held.layer->forward(pass, x, *kept, other_y);
  held.layer->backward(pass, x, *kept, dy, other_dx);
  EXPECT_TRUE(y == other_y);
  EXPECT_TRUE(dx == other_dx);
}

INSTANTIATE_TEST_SUITE_P(Catalog, RecurrenceTest, testing::ValuesIn(implementations()),
                         [](const auto& tested) { return tested.param; });

/// y = x w^T + b in double; w (out, in).
std::vector<double> product(const TrainedLayer<Recurrence>& held, const std::string& weight,
                            const std::vector<double>& x) {
  const Mat w = held.parameter(weight).matrix(), b = held.parameter(weight + "_bias").matrix();
  std::vector<double> y;
  for (std::int64_t o = 0; o < w.rows(); ++o) {
    double sum = double(b(0, o));
    for (std::int64_t i = 0; i < w.cols(); ++i) sum += double(w(o, i)) * x[std::size_t(i)];
    y.push_back(sum);
  }
  return y;
}

/// Paper 6 in so many loops.
TEST(SruTest, IsTheDefinition) {
  set_gemm_threads(1);
  const std::size_t n = 7;
  const ModelConfig c = config_of_width(std::int64_t(n));
  const TrainedLayer<Recurrence> held(make_recurrence("sru", c));
  const Mat x = random_mat(kPositions, c.d_model, 36);
  const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
  Mat expected(kPositions, c.d_model);
  std::vector<double> cell(n, 0.0);
  for (std::int64_t t = 0; t < kPositions; ++t) {
    std::vector<double> row, h;
    for (std::int64_t i = 0; i < c.d_model; ++i) row.push_back(double(x(t, i)));
    const std::vector<double> u = product(held, "in", row), gates = product(held, "gates", u);
    for (std::size_t i = 0; i < n; ++i) {
      const double r = sigmoid(gates[i]), f = sigmoid(gates[n + i]);
      cell[i] = f * cell[i] + (1 - f) * gates[2 * n + i];
      h.push_back(r * cell[i] + (1 - r) * u[i] * std::sqrt(3.0));
    }
    const std::vector<double> y = product(held, "out", h);
    for (std::int64_t i = 0; i < c.d_model; ++i) expected(t, i) = float(y[std::size_t(i)]);
  }
  expect_close(held.layer->forward(x), expected, "sru");
}

TEST(SruTest, CountsOfTheReference) {
  ModelConfig c = config_of_shape("800m");
  const std::int64_t before = Transformer(c, 1).parameter_count();
  c.recurrence = "sru";
  const auto layer = make_recurrence("sru", c);
  std::int64_t count = 0;
  layer->visit_parameters([&](Parameter& p) { count += p.count(); });
  EXPECT_EQ(count + 2 * 1024, 71808);  // with its norm
  const Cost cost = layer->step_cost(1, WeightType::f32);
  EXPECT_EQ(total(cost).weights, double(count));
  EXPECT_EQ(total(cost).flops, 4.0 * 1024 * 32 + 6.0 * 32 * 32);
  EXPECT_EQ(total(layer->step_cost(3, WeightType::bf16)).flops, 3 * total(cost).flops);
  EXPECT_EQ(Transformer(c, 1).parameter_count(), before + 48 * 71808);

  Transformer with(c, 1);
  c.recurrence = "none";
  Transformer without(c, 1);
  const double more =
      total(with.block_cost(1, 20, 16)).weights - total(without.block_cost(1, 20, 16)).weights;
  EXPECT_EQ(more, double(count));
}

TEST(RecurrenceConfig, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](const std::string& knob, const std::string& value) -> std::string {
    ModelConfig c = config_of_shape("tiny");
    c.recurrence = "sru";
    set_field(c, knob, value);
    try {
      validate(c);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string unknown = refusal("recurrence", "nonsense");
  for (const char* word : {"recurrence", "nonsense", "none", "sru"}) {
    EXPECT_NE(unknown.find(word), std::string::npos) << unknown;
  }
  EXPECT_NE(refusal("recurrence_width", "0").find("recurrence_width 0"), std::string::npos);
  EXPECT_EQ(refusal("recurrence", "none"), "no error");
  EXPECT_EQ(make_recurrence("none", ModelConfig()), nullptr);
  ModelConfig c;
  c.recurrence = "sru";
  set_field(c, "shape", "tiny");
  EXPECT_EQ(c.recurrence, "sru");
}

// -- in a block -----------------------------------------------------------------------------------

ModelConfig model_config(std::int64_t encoder_layers) {
  ModelConfig c = config_of_width(7);
  c.encoder_layers = encoder_layers;
  c.decoder_layers = 2;
  return c;
}

TEST(RecurrenceInModel, DecodingIsForward) {
  set_gemm_threads(1);
  const std::vector<int> source = {5, 9, 17, 3, 0}, target = {7, 1, 30, 30, 12, 44, 2, 9, 51};
  for (const std::int64_t encoder_layers : {0, 2}) {
    Transformer model(model_config(encoder_layers));
    Team team(2);
    model.allocate(team);
    shake_vectors(model);
    const Mat expected = model.forward(source, target);
    for (const int tokens : {1, 3}) {
      Decoder decoder(model, find_kernel_set("simd"), team, tokens, std::int64_t(target.size()),
                      std::int64_t(source.size()));
      // The second decode begins with empty cells again.
      for (int decode = 0; decode < 2; ++decode) {
        decoder.begin(source);
        Mat logits(expected.rows(), expected.cols());
        std::vector<int> next;
        for (std::size_t t = 0; t < target.size(); ++t) {
          decoder.step(std::vector<int>(std::size_t(tokens), t == 0 ? 0 : target[t - 1]), next);
          logits.row(std::int64_t(t)) = Eigen::Map<const Eigen::RowVectorXf>(
              decoder.logits().data() + (tokens - 1) * expected.cols(), expected.cols());
        }
        expect_close(logits, expected, "encoder layers " + std::to_string(encoder_layers));
      }
    }
  }
}

/// Two examples; the second is padded.
Batch batch_of(const ModelConfig& c) {
  Batch b;
  b.examples = 2;
  b.input_length = 6;
  b.target = {3, 9, 4, 21, 5, 8, 30, 2, 7, 11, 0, 0};
  b.weights = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  shift_right(b.target, b.examples, b.input);
  if (!c.decoder_only()) {
    b.source_length = 4;
    b.source = {5, 6, 7, 8, 9, 10, 11, 0};
  }
  return b;
}

/// The loss's slope along +-1 for every parameter of the recurrence and its norm, and for all that
/// lies below the blocks.
TEST(RecurrenceInModel, GradientsAreSlopes) {
  set_gemm_threads(2);
  for (const std::int64_t encoder_layers : {0, 1}) {
    const ModelConfig c = model_config(encoder_layers);
    Transformer model(c);
    Team team(2);
    model.allocate_for_training(team);
    shake_vectors(model);
    const Batch batch = batch_of(c);
    const auto kept = model.make_activations();
    const auto loss = [&] {
      Pass pass{.gemm = find_gemm("eigen"), .examples = 2};
      return model.loss_of(pass, batch, *kept).loss;
    };
    Pass pass{.gemm = find_gemm("eigen"), .examples = 2, .training = true};
    model.zero_gradients();
    model.loss_and_gradients(pass, batch, 1, *kept);
    int checked = 0;
    for (Parameter* p : model.parameters()) {
      const bool is_beside = p->name.find("recurrence") != std::string::npos;
      if (!is_beside && p->name != "embedding" && p->name != "decoder_positions") continue;
      ++checked;
      constexpr float kStep = 1e-3f;
      double expected = 0, size = 0, losses[2] = {0, 0};
      for (std::int64_t i = 0; i < p->count(); ++i) {
        const double g = double(p->gradient[i]);
        expected += i % 3 == 0 ? g : -g;
        size += g * g;
      }
      const std::vector<float> before(p->values(), p->values() + p->count());
      for (const int side : {0, 1}) {
        for (std::int64_t i = 0; i < p->count(); ++i) {
          const float step = (i % 3 == 0) == (side == 0) ? kStep : -kStep;
          p->values()[i] = before[std::size_t(i)] + step;
        }
        losses[side] = loss();
      }
      std::copy(before.begin(), before.end(), p->values());
      const double slope = (losses[0] - losses[1]) / (2 * double(kStep));
      EXPECT_GT(size, 0) << p->name;
      EXPECT_NEAR(slope, expected, 0.02 * std::sqrt(size) + 0.02 * std::abs(expected)) << p->name;
    }
    EXPECT_EQ(checked, 2 + 8 * int(c.encoder_layers + c.decoder_layers));
  }
}

/// The branch has no dropout and asks for no draws: with its output at zero the model is the one
/// without it, draw for draw.
TEST(RecurrenceInModel, TakesNoDraws) {
  set_gemm_threads(1);
  ModelConfig with = model_config(0), without = with;
  without.recurrence = "none";
  double losses[2];
  int i = 0;
  for (const ModelConfig& c : {with, without}) {
    Transformer model(c);
    Team team(1);
    model.allocate_for_training(team);
    for (Parameter* p : model.parameters()) {
      if (p->name.find("recurrence.out") == std::string::npos) continue;
      std::fill(p->values(), p->values() + p->count(), 0.0f);
    }
    Pass pass{
        .gemm = find_gemm("eigen"), .examples = 2, .training = true, .dropout = 0.3f, .seed = 5};
    losses[i++] = model.loss_and_gradients(pass, batch_of(c), 1, *model.make_activations()).loss;
  }
  EXPECT_EQ(losses[0], losses[1]);
}

}  // namespace
}  // namespace scaling
