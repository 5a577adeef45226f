// Several tokens predicted at each position: attention of streams by a plain mask, gradients of
// whole models by differences, and that a stream sees no more than the first one at its place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/layers/attention/full.h"
#include "models/layers/catalog.h"
#include "models/training/agreement.h"
#include "models/transformer/transformer.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kSource = 5, kLength = 6;

ModelConfig config_of(std::int64_t future_tokens, bool has_source,
                      const std::vector<std::pair<std::string, std::string>>& knobs = {}) {
  ModelConfig c = small_config();
  c.encoder_layers = has_source ? 1 : 0;
  c.decoder_layers = 2;
  for (const auto& [name, value] : knobs) set_field(c, name, value);
  set_field(c, "future_tokens", future_tokens);
  return c;
}

/// Whatever looks at other positions than attention does.
ModelConfig looking_back(std::int64_t future_tokens, bool has_source) {
  return config_of(future_tokens, has_source,
                   {{"projection", "mult_conv"},
                    {"cross_projection", "mult_conv"},
                    {"cross_attention", "linformer"},
                    {"linformer_rank", "3"},
                    {"recurrence", "sru"},
                    {"recurrence_width", "8"}});
}

std::unique_ptr<Transformer> trainable(const ModelConfig& config) {
  set_gemm_threads(1);
  auto model = std::make_unique<Transformer>(config);
  Team team(1);
  model->allocate_for_training(team);
  return model;
}

Batch batch_for(const ModelConfig& config) {
  Batch b;
  b.examples = 2;
  b.source_length = config.decoder_only() ? 0 : kSource;
  b.input_length = kLength;
  Rng ids(7);
  const auto draw = [&](std::int64_t n) {
    std::vector<int> drawn;
    for (std::int64_t i = 0; i < n; ++i) {
      drawn.push_back(1 + int(ids.below(std::uint32_t(config.vocab_size - 1))));
    }
    return drawn;
  };
  b.source = draw(b.examples * b.source_length);
  b.target = draw(b.examples * b.input_length);
  b.weights.assign(b.target.size(), 1.0f);
  b.weights.back() = 0;  // as if padded
  shift_right(b.target, b.examples, b.input);
  return b;
}

Pass pass_of(bool training, float dropout = 0, float future_weight = 1) {
  return {.gemm = find_gemm("eigen"),
          .training = training,
          .dropout = dropout,
          .seed = 3,
          .future_weight = future_weight};
}

CrossEntropy loss_of(const Transformer& model, const Batch& batch, const Pass& pass) {
  Pass own = pass;
  return model.loss_of(own, batch, *model.make_activations());
}

/// A query of the first stream sees its past, one of a later stream the first's and itself.
TEST(FutureTokens, AttentionOfStreamsIsThatOfAPlainMask) {
  for (const std::int64_t length : {2, 5, 70}) {
    for (const std::int64_t streams : {1, 2, 3}) {
      for (const auto& [normaliser, alpha] :
           {std::pair("softmax", 1.0), std::pair("entmax15", 1.5)}) {
        SCOPED_TRACE(std::to_string(length) + " " + std::to_string(streams) + " " + normaliser);
        const FullAttention layer(config_of_heads({{"normaliser", normaliser}}));
        const std::int64_t rows = streams * length;
        const AttentionInput in(rows, rows, 24);
        const AttentionMask mask{.causal = true, .streams = streams};
        const auto is_seen = [length](std::int64_t t, std::int64_t j) {
          return j < length ? j <= t % length : j == t;
        };
        expect_same(run_attention(layer, training_pass(), in, mask),
                    define_attention(in, 3, {}, alpha, is_seen));
      }
    }
  }
}

TEST(FutureTokens, GradientsAreTheSlopesOfAllTheirLosses) {
  for (const bool has_source : {false, true}) {
    for (const char* stack : {"plain", "reversible"}) {
      ModelConfig config = looking_back(3, has_source);
      set_field(config, "residual_stack", stack);
      const auto model = trainable(config);
      const Batch batch = batch_for(config);
      const auto kept = model->make_activations();
      const Pass pass = pass_of(true, 0.1f, 0.5f);
      Pass first = pass;
      model->zero_gradients();
      const CrossEntropy found = model->loss_and_gradients(first, batch, 1, *kept);
      EXPECT_EQ(first.examples, batch.examples);
      EXPECT_GT(found.future_loss, 0.3 * found.loss);
      const auto loss = [&] {
        Pass again = pass;
        const CrossEntropy sums = model->loss_of(again, batch, *kept);
        return sums.loss + sums.future_loss;
      };
      EXPECT_NEAR(loss(), found.loss + found.future_loss, 1e-6 * found.loss);
      int seen = 0;
      for (Parameter* p : model->parameters()) {
        if (!p->gradient) continue;
        const Mat gradient = Eigen::Map<const Mat>(p->gradient, p->rows, p->cols);
        const auto size = double(gradient.norm());
        if (size < 0.1) continue;
        ++seen;
        constexpr float kStep = 2e-3f;
        Eigen::Map<Mat> values(p->values(), p->rows, p->cols);
        const Mat before = values, direction = gradient / gradient.norm();
        values = before + kStep * direction;
        const double above = loss();
        values = before - kStep * direction;
        const double below = loss();
        values = before;
        EXPECT_NEAR((above - below) / (2 * double(kStep)), size, 3e-2 * size + 2e-2)
            << stack << " " << p->name;
      }
      EXPECT_GT(seen, 20) << "hardly a parameter has a gradient";
      const Parameter& streams = model->decoder().streams;
      ASSERT_EQ(streams.rows, 2);
      for (std::int64_t row = 0; row < 2; ++row) {
        const Eigen::Map<const Mat> gradient(streams.gradient, streams.rows, streams.cols);
        EXPECT_GT(gradient.row(row).norm(), 0.1f) << row;
      }
    }
  }
}

/// Only the target at one place counts, so that the second stream's loss is that of the position
/// before it: inputs up to there change it, later ones do not.
TEST(FutureTokens, AStreamSeesNoTokenThatItPredictsNorLaterOnes) {
  constexpr std::size_t kPlace = 4;
  for (const bool has_source : {false, true}) {
    const ModelConfig config = looking_back(2, has_source);
    const auto model = trainable(config);
    Batch batch = batch_for(config);
    batch.weights.assign(batch.weights.size(), 0.0f);
    batch.weights[kPlace] = 1;
    const Pass pass = pass_of(true);
    const CrossEntropy before = loss_of(*model, batch, pass);
    EXPECT_GT(before.future_loss, 0);
    EXPECT_EQ(before.weight, 1);
    for (std::size_t place = 0; place < std::size_t(kLength); ++place) {
      Batch other = batch;
      other.input[place] = 1 + (other.input[place] + 7) % 50;
      const CrossEntropy after = loss_of(*model, other, pass);
      const auto changed = [](double one, double two) { return std::abs(one - two) > 1e-5; };
      EXPECT_EQ(changed(after.loss, before.loss), place <= kPlace) << place;
      EXPECT_EQ(changed(after.future_loss, before.future_loss), place < kPlace) << place;
    }
  }
}

/// Neither what the first stream learns from nor what is evaluated and decoded knows of others.
TEST(FutureTokens, TheFirstStreamIsTheDecoderAsItWas) {
  for (const bool has_source : {false, true}) {
    const ModelConfig config = looking_back(3, has_source);
    const auto several = trainable(config), one = trainable(looking_back(1, has_source));
    EXPECT_EQ(several->parameter_count(), one->parameter_count() + 2 * config.d_model);
    const Batch batch = batch_for(config);
    for (const bool training : {false, true}) {
      const CrossEntropy ours = loss_of(*several, batch, pass_of(training));
      const CrossEntropy theirs = loss_of(*one, batch, pass_of(training));
      EXPECT_NEAR(ours.loss, theirs.loss, 1e-5 * theirs.loss);
      EXPECT_EQ(ours.weight, theirs.weight);
      EXPECT_EQ(ours.sequences, theirs.sequences);
      EXPECT_EQ(theirs.future_loss, 0);
      EXPECT_EQ(ours.future_loss > 0, training);
    }
    const std::vector<int> source(batch.source.begin(), batch.source.begin() + batch.source_length);
    const std::vector<int> target(batch.target.begin(), batch.target.begin() + kLength);
    EXPECT_TRUE(several->forward(source, target) == one->forward(source, target));
    EXPECT_EQ(total(several->token_cost(1, 4, kSource)).weights,
              total(one->token_cost(1, 4, kSource)).weights);
  }
}

/// Of 0 only the next token's loss is left.
TEST(FutureTokens, SharesOfTheirLossesArePowers) {
  const ModelConfig config = config_of(3, false);
  const auto model = trainable(config);
  const Batch batch = batch_for(config);
  const auto future = [&](float weight) {
    return loss_of(*model, batch, pass_of(true, 0, weight)).future_loss;
  };
  const double both = future(1), halves = future(0.5f);  // a + b and a / 2 + b / 4
  const double second = 4 * halves - both, third = both - second;
  EXPECT_EQ(future(0), 0);
  EXPECT_GT(second, 0);
  EXPECT_GT(third, 0);
  EXPECT_LT(third, second);  // of fewer positions
  EXPECT_NEAR(future(0.25f), second / 4 + third / 16, 1e-4 * both);
}

TEST(FutureTokens, FlopsAreThoseOfTheirRowsAndPairs) {
  const ModelConfig config = config_of(3, false);
  const double d = double(config.d_model), f = double(config.d_ff), v = double(config.vocab_size);
  const double n = double(kLength), rows = 3 * n, pairs = 3 * n * (n + 1) / 2 + 2 * n;
  const double forward = rows * (2 * (8 * d * d + 4 * d * f) + 2 * d * v) + 2 * pairs * 4 * d;
  EXPECT_NEAR(Transformer(config).training_flops(2, 0, kLength), 3 * 2 * forward, 1e-9 * forward);
}

TEST(FutureTokens, WhatHasNoStreamsIsRefused) {
  const auto said = [](const ModelConfig& config) { return message_of([&] { validate(config); }); };
  EXPECT_EQ(said(config_of(3, true)), "no error");
  expect_mentions(said(config_of(2, false, {{"attention", "window"}})),
                  {"future_tokens 2", "window", "future_tokens 1"});
  expect_mentions(
      said(config_of(2, true, {{"source", "concatenated"}, {"residual_stack", "reversible"}})),
      {"future_tokens 2", "concatenated", "cross_attention"});
  expect_mentions(said(config_of(0, false)), {"future_tokens 0"});
  TrainConfig train;
  train.task = "masked";
  const Needs needs{
      .causal = false, .trained = {0, 8}, .evaluated = {0, 8}, .length_knobs = "length"};
  expect_mentions(message_of([&] { require_fit(train, needs, config_of(2, false)); }),
                  {"future_tokens 2", "masked", "both sides"});
}

}  // namespace
}  // namespace scaling
