// Blocks that take attentions in turn, and heads that share a block: what a stack of them computes,
// counts, holds and refuses.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention_list.h"
#include "models/layers/catalog.h"
#include "models/transformer/decoder.h"
#include "models/transformer/matched_sizes.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/model_harness.h"

namespace scaling {
namespace {

/// A decoder alone.
ModelConfig config(const std::string& attention, std::int64_t layers = 4) {
  ModelConfig c = small_config();
  c.encoder_layers = 0;
  c.decoder_layers = c.blocks = layers;
  c.attention = attention;
  return c;
}

/// With an encoder whose attention is its own.
ModelConfig encoded(const std::string& attention, const std::string& of_encoder,
                    std::int64_t encoder_layers = 2) {
  ModelConfig c = config(attention);
  c.encoder_layers = encoder_layers;
  c.encoder_attention = of_encoder;
  return c;
}

std::string refusal(const ModelConfig& c) {
  try {
    validate(c);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const ModelConfig& c, const std::vector<std::string>& words) {
  const std::string said = refusal(c);
  for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << said;
}

// -- the text -------------------------------------------------------------------------------------

TEST(AttentionList, IsReadBack) {
  const std::string text = "full,window:window_width=5:normaliser=entmax15+full,lsh";
  const std::vector<HeadAttentions> all = parse_attentions(text);
  ASSERT_EQ(all.size(), 3u);
  ASSERT_EQ(all[1].size(), 2u);
  EXPECT_EQ(all[0][0].name, "full");
  EXPECT_EQ(all[1][0].own, (Settings{{"window_width", "5"}, {"normaliser", "entmax15"}}));
  EXPECT_EQ(all[1][1].name, "full");
  EXPECT_TRUE(all[1][1].own.empty());
  EXPECT_EQ(print_attentions(all), text);
  ModelConfig c;
  set_field(c, "attention", text);
  EXPECT_EQ(get_field(c, "attention"), text);
}

TEST(AttentionList, WhatStandsForNothingIsRefused) {
  for (const char* text : {"full,", "full+", ",full", "full,,full", "", ":window_width=3"}) {
    expect_refused(config(text), {"names no attention", "'" + std::string(text) + "'"});
  }
  expect_refused(config("window:window_width"), {"'window_width' is not knob=value"});
  expect_refused(config("window:=3"), {"'=3' is not knob=value"});
  expect_refused(config("window:window_width=3:window_width=5"), {"window_width twice"});
}

TEST(AttentionList, WhatCannotBeIsRefusedWithBothNumbers) {
  expect_refused(config("full,nonsense"), {"nonsense", "banded"});
  expect_refused(config("full,window:lsh_chunk=3"), {"window", "'lsh_chunk'", "window_width"});
  expect_refused(config("full,window:window_width=x"), {"window_width", "'x'"});
  expect_refused(config("full,window:window_width=4"), {"window_width 4", "3 or 5"});
  expect_refused(config("full,full,banded", 4), {"decoder_layers 4", "3 attentions"});
  expect_refused(config("full,banded,full,banded,full,banded", 3), {"decoder_layers 3", "6"});
  ModelConfig c = config("full,banded");
  c.blocks = 3;
  expect_refused(c, {"blocks 3", "2 attentions"});
  c = config("full,banded");
  c.encoder_layers = 1;
  expect_refused(c, {"encoder_layers 1", "2 attentions"});
  expect_refused(config("full+full+full+full"), {"n_heads 6", "4"});
  expect_refused(config("full+sparsefinder_kmeans"), {"sparsefinder_kmeans", "window"});
  expect_refused(config("sparsefinder_distance+full"), {"sparsefinder_distance", "window"});
  EXPECT_EQ(refusal(config("full,banded")), "");
  EXPECT_EQ(refusal(config("full+window+banded")), "");
}

/// Neither decodes nor learns what is causal if one of its blocks cannot.
TEST(AttentionList, EveryBlockMustBeCausal) {
  EXPECT_THROW(require_causal(config("full,linformer")), UserError);
  EXPECT_NO_THROW(require_causal(config("full,banded")));
  EXPECT_THROW(make_self_attention(config("full,banded")), UserError);
}

/// Only the decoder must, where the encoder has its own.
TEST(EncoderAttention, NeedNotBeCausal) {
  ModelConfig c = encoded("full", "linformer");
  EXPECT_NO_THROW(require_causal(c));
  c.encoder_attention.clear();
  c.attention = "full,linformer";
  try {
    require_causal(c);
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("encoder_attention"), std::string::npos);
  }
}

TEST(EncoderAttention, WhatCannotBeIsRefused) {
  expect_refused(encoded("full", "full,nonsense"), {"nonsense", "banded"});
  expect_refused(encoded("full", "window,full,full", 2), {"encoder_layers 2", "3 attentions"});
  expect_refused(encoded("full", "window:window_width=4"), {"window_width 4"});
  expect_refused(encoded("full", "full+full+full+full"), {"n_heads 6", "4"});
  ModelConfig c = encoded("full", "window");
  c.encoder_layers = 0;
  expect_refused(c, {"encoder_attention 'window'", "encoder_layers 0", "leave it out"});
  // The decoder's list asks nothing of the encoder.
  EXPECT_EQ(refusal(encoded("full,banded", "window", 3)), "");
  c = encoded("full", "window,window");
  c.future_tokens = 2;
  EXPECT_EQ(refusal(c), "") << "streams are the decoder's";
}

TEST(EncoderAttention, ItsKnobsAreRead) {
  const ModelConfig c = encoded("banded", "window,full:normaliser=entmax15");
  for (const char* knob : {"window_width", "band_width", "normaliser"}) {
    EXPECT_TRUE(is_relevant(c, knob)) << knob;
  }
  EXPECT_FALSE(is_relevant(c, "linformer_rank"));
  EXPECT_FALSE(is_relevant(encoded("banded", "window:window_width=5"), "window_width"));
}

TEST(EncoderAttention, IsSmallInASmallModel) {
  const ModelConfig small =
      shrunk(encoded("full,banded", "window:window_width=33,window:window_width=65,full", 6));
  EXPECT_EQ(small.encoder_attention, "window,full");
  EXPECT_EQ(small.encoder_layers, 2);
  EXPECT_EQ(small.decoder_layers, 2);
  EXPECT_EQ(refusal(small), "");
}

/// To the bit, whatever is written.
TEST(EncoderAttention, TheDecodersIsTheDefault) {
  std::vector<Step> steps;
  for (const char* own : {"", "window,full"}) {
    const auto model = trainable(encoded("window,full", own));
    steps.push_back(
        step_of(*model, model_pass(true, 0.1f), batch_of(three_examples(model->config()))));
  }
  EXPECT_EQ(steps[0].sums.loss, steps[1].sums.loss);
  ASSERT_EQ(steps[0].names, steps[1].names);
  for (std::size_t i = 0; i < steps[0].names.size(); ++i) {
    EXPECT_TRUE(steps[0].gradients[i] == steps[1].gradients[i]) << steps[0].names[i];
  }
}

/// Encoder blocks alone are another, and take their own turns; in a reversible stack too.
TEST(EncoderAttention, IsTheEncodersAlone) {
  for (const ResidualStack stack : {ResidualStack::plain, ResidualStack::reversible}) {
    ModelConfig c =
        encoded("full", "linformer:linformer_rank=3,full,linformer:linformer_rank=5", 3);
    c.residual_stack = stack;
    Transformer model(c);
    std::vector<std::string> found;
    std::int64_t visited = 0;
    model.visit_parameters([&](Parameter& p) {
      visited += p.count();
      if (p.name.ends_with("attention.e")) found.push_back(p.name);
    });
    EXPECT_EQ(found, (std::vector<std::string>{"encoder.0.attention.e", "encoder.2.attention.e"}));
    EXPECT_EQ(model.parameter_count(), visited);
    EXPECT_EQ(parameters_of(c), visited);
    ModelConfig baseline = encoded("full", "", 3);
    baseline.residual_stack = stack;
    EXPECT_EQ(visited - parameters_of(baseline), 2 * (3 + 5) * c.max_length);
    const auto trained = trainable(c);
    const Step step = step_of(*trained, model_pass(true), batch_of(three_examples(c)));
    for (std::size_t i = 0; i < step.names.size(); ++i) {
      if (!step.names[i].ends_with("attention.e")) continue;
      EXPECT_FALSE(step.gradients[i].isZero(0)) << step.names[i];
    }
  }
}

TEST(AttentionList, KnobsThatEachSetsItselfAreOfNoUse) {
  const ModelConfig own = config("full,window:window_width=5");
  EXPECT_FALSE(is_relevant(own, "window_width"));
  EXPECT_TRUE(is_relevant(own, "normaliser"));
  EXPECT_FALSE(is_relevant(own, "band_width"));
  EXPECT_TRUE(is_relevant(config("window:window_width=5,window"), "window_width"));
  try {
    require_relevant(own, "window_width");
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("sets its own"), std::string::npos) << error.what();
  }
}

/// Each once, whatever the depth, and small.
TEST(AttentionList, ASmallModelHasThemAll) {
  ModelConfig c = config_of_shape("800m");
  c.attention =
      "full,window:window_width=33:normaliser=entmax15,full,window:window_width=65:normaliser="
      "entmax15,full+banded+banded+banded,full";
  const ModelConfig small = shrunk(c);
  EXPECT_EQ(small.attention, "full,window:normaliser=entmax15,full+banded");
  EXPECT_EQ(small.decoder_layers, 3);
  EXPECT_EQ(small.encoder_layers, 3);
  EXPECT_EQ(get_field(small, "window_width"), "7");
  EXPECT_EQ(refusal(small), "");
  c.attention = "full+banded+window+strided+fixed";
  EXPECT_EQ(refusal(shrunk(c)), "");
}

// -- what is computed -----------------------------------------------------------------------------

const std::vector<int> kTarget = {7, 1, 30, 30, 12, 44, 2, 9, 51, 3, 8};

const std::vector<std::string> kMixed = {
    "full,banded",
    "window,performer,full,banded:band_width=2",
    "strided,fixed:fixed_summary=2:attention_stride=3:fixed_subblocks=1",
    "window+full",
    "full,longformer+bigbird+banded",
    "routing:routing_clusters=1+window,full",
    "window+performer,lsh:lsh_chunk=64+full",
    "longformer:longformer_projections=own:longformer_global=3,full",
    "window:normaliser=entmax15+full:normaliser=sparsemax,full"};

TEST(MixedAttention, StepsAreForward) {
  for (const std::string& attention : kMixed) {
    SCOPED_TRACE(attention);
    const auto model = decodable(config(attention));
    const Mat expected = model->forward({}, kTarget);
    for (const int threads : {1, 2, 3}) {
      constexpr int kTokens = 2;
      Team team(threads);
      Decoder decoder(*model, find_kernel_set("simd"), team, kTokens, std::int64_t(kTarget.size()),
                      0);
      decoder.begin(std::vector<int>());
      Mat made(expected.rows(), expected.cols());
      std::vector<int> next;
      for (std::size_t t = 0; t < kTarget.size(); ++t) {
        decoder.step(std::vector<int>(kTokens, t == 0 ? 0 : kTarget[t - 1]), next);
        made.row(std::int64_t(t)) = Eigen::Map<const Eigen::RowVectorXf>(
            decoder.logits().data() + expected.cols(), expected.cols());
      }
      expect_close(made, expected, "threads " + std::to_string(threads));
    }
  }
}

/// Blocks are what their names say, in their order, and a longer list changes its own blocks alone.
TEST(MixedAttention, BlocksTakeTheirTurns) {
  const auto block_bytes = [](const std::string& attention) {
    const Transformer model(config(attention));
    std::vector<double> bytes;
    for (const auto& block : model.decoder().blocks) {
      const auto cost = block->branches[0]->step_cost(model.decode_sizes(1, 40, 0));
      bytes.push_back(total(cost[std::size_t(BlockPart::self_attention)]).bytes);
    }
    return bytes;
  };
  const double position = 2 * 48 * 4;  // a key and a value
  EXPECT_EQ(block_bytes("full,banded"),
            (std::vector<double>{40 * position, 3 * position, 40 * position, 3 * position}));
  EXPECT_EQ(block_bytes("banded:band_width=7,full,banded,full+banded"),
            (std::vector<double>{7 * position, 40 * position, 3 * position, 21.5 * position}));
}

TEST(MixedAttention, EqualNamesAreTheOneName) {
  for (const auto& [one, many] : std::vector<std::pair<std::string, std::string>>{
           {"window", "window,window:window_width=3,window,window"},
           {"banded", "banded,banded+banded"},
           {"bigbird", "bigbird+bigbird+bigbird,bigbird"},
           {"fixed", "fixed+fixed"}}) {
    SCOPED_TRACE(many);
    std::vector<Step> steps;
    std::vector<Mat> logits;
    for (const std::string& attention : {one, many}) {
      const auto model = trainable(config(attention));
      steps.push_back(step_of(*model, model_pass(true), batch_of(three_examples(model->config()))));
      logits.push_back(decodable(config(attention))->forward({}, kTarget));
    }
    EXPECT_TRUE(logits[0] == logits[1]);
    EXPECT_EQ(steps[0].sums.loss, steps[1].sums.loss);
    ASSERT_EQ(steps[0].names, steps[1].names);
    for (std::size_t i = 0; i < steps[0].names.size(); ++i) {
      EXPECT_TRUE(steps[0].gradients[i] == steps[1].gradients[i]) << steps[0].names[i];
    }
  }
}

/// Of blocks in turn dropout draws what it draws of equal ones.
TEST(MixedAttention, TurnsDropOutAlike) {
  std::vector<double> losses;
  for (const char* attention : {"window", "window,window"}) {
    const auto model = trainable(config(attention));
    losses.push_back(
        step_of(*model, model_pass(true, 0.2f), batch_of(three_examples(model->config())))
            .sums.loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

/// Global projections start as the local ones, so that the model starts as the one that shares
/// them.
TEST(OwnGlobalProjections, StartAsTheLocalOnes) {
  ModelConfig c = config("longformer:longformer_global=3", 2);
  ModelConfig own = c;
  set_field(own, "longformer_projections", "own");
  Team team(2);
  std::vector<Mat> logits;
  std::vector<std::int64_t> counts;
  for (const ModelConfig& one : {c, own}) {
    Transformer model(one);
    model.allocate(team);
    logits.push_back(model.forward({}, kTarget));
    counts.push_back(model.parameter_count());
  }
  expect_close(logits[1], logits[0], "logits");
  EXPECT_EQ(counts[1] - counts[0], 2 * 3 * (48 * 48 + 48));
  // Beside a projection that has no such matrices they are dense ones all the same.
  own.projection = "mult_conv";
  Transformer other(own);
  other.allocate(team);
  other.visit_parameters([](Parameter& p) {
    if (p.name == "decoder.0.attention.global_q") {
      EXPECT_GT(p.matrix().norm(), 0.1f);
    }
  });
}

/// A decoder behind an encoder of local and global layers; paragraphs of four, of which two have
/// padding and one has nothing else.
TEST(EncoderAttention, DecodesBehindAHierarchy) {
  const auto model = decodable(encoded("full,banded", "paragraph,inter_paragraph"));
  const std::vector<int> source = {5, 9, 1, 0, 8, 1, 0, 0, 0, 0, 0, 0, 12, 40, 33, 17};
  const Mat expected = model->forward(source, kTarget);
  Team team(2);
  Decoder decoder(*model, find_kernel_set("simd"), team, 1, std::int64_t(kTarget.size()),
                  std::int64_t(source.size()));
  decoder.begin(source);
  Mat made(expected.rows(), expected.cols());
  std::vector<int> next;
  for (std::size_t t = 0; t < kTarget.size(); ++t) {
    decoder.step({t == 0 ? 0 : kTarget[t - 1]}, next);
    made.row(std::int64_t(t)) =
        Eigen::Map<const Eigen::RowVectorXf>(decoder.logits().data(), expected.cols());
  }
  expect_close(made, expected, "logits");
}

/// Without the global layer a paragraph says the same beside any other; with it, not.
TEST(EncoderAttention, OnlyGlobalLayersJoinParagraphs) {
  const std::vector<int> source = {5, 9, 1, 0, 8, 30, 1, 0}, other = {5, 9, 1, 0, 8, 31, 1, 0};
  for (const bool has_global : {false, true}) {
    const auto model =
        decodable(encoded("full", has_global ? "paragraph,inter_paragraph" : "paragraph"));
    const bool is_same = model->encode(source).topRows(3) == model->encode(other).topRows(3);
    EXPECT_EQ(is_same, !has_global);
  }
}

// -- what is counted ------------------------------------------------------------------------------

double mean(double a, double b) { return (a + b) / 2; }

TEST(MixedAttention, CostsAreThoseOfTheLayers) {
  const Transformer full(config("full")), banded(config("banded")), mixed(config("full,banded"));
  const auto bytes = [](const Transformer& m) { return total(m.token_cost(2, 40, 0)).bytes; };
  const auto flops = [](const Transformer& m) { return total(m.token_cost(2, 40, 0)).flops; };
  EXPECT_LT(bytes(banded), bytes(mixed));
  EXPECT_DOUBLE_EQ(bytes(mixed), mean(bytes(full), bytes(banded)));
  EXPECT_DOUBLE_EQ(flops(mixed), mean(flops(full), flops(banded)));
  const auto caches = [](const Transformer& m) {
    return double(m.state_bytes(m.decode_sizes(2, 40, 0)));
  };
  EXPECT_LT(caches(banded), caches(mixed));
  EXPECT_DOUBLE_EQ(caches(mixed), mean(caches(full), caches(banded)));
  const auto training = [](const Transformer& m) { return m.training_flops(3, 0, 40); };
  EXPECT_DOUBLE_EQ(training(mixed), mean(training(full), training(banded)));
  // Heads that are shared equally cost half of each, and hold it.
  const Transformer shared(config("full+banded"));
  EXPECT_DOUBLE_EQ(bytes(shared), bytes(mixed));
  EXPECT_DOUBLE_EQ(flops(shared), flops(mixed));
  EXPECT_DOUBLE_EQ(caches(shared), caches(mixed));
  EXPECT_DOUBLE_EQ(training(shared), training(mixed));
  EXPECT_GE(shared.activation_bytes(3, 0, 40), full.activation_bytes(3, 0, 40));
}

/// Some blocks of a deep model stand for all, in whole rounds.
TEST(MixedAttention, HeldBlocksAreWholeRounds) {
  ModelConfig c = config("full,banded,banded", 9);
  const double bytes = total(Transformer(c).token_cost(1, 40, 0)).bytes;
  c.blocks = 3;
  EXPECT_DOUBLE_EQ(total(Transformer(c).token_cost(1, 40, 0)).bytes, bytes);
  c.blocks = 0;
  EXPECT_EQ(Transformer(c, 1).blocks(), 3) << "memory for none";
  const Transformer all(c, std::uint64_t(1) << 40);
  EXPECT_EQ(all.blocks(), 9);
  // Memory for about five blocks.
  ModelConfig few = c;
  few.blocks = 3;
  const Transformer three(few);
  const std::uint64_t of_three = three.held_bytes(), of_nine = all.held_bytes();
  const std::uint64_t room =
      (std::uint64_t(1536) << 20) + of_three + (of_nine - of_three) / 6 * 2 + 1;
  EXPECT_EQ(Transformer(c, room).blocks(), 3);
}

TEST(MixedAttention, ParametersAreThoseOfTheLayers) {
  ModelConfig c = config("linformer:linformer_rank=3,full,linformer:linformer_rank=5,full");
  Transformer model(c);
  std::int64_t visited = 0;
  model.visit_parameters([&](Parameter& p) { visited += p.count(); });
  EXPECT_EQ(model.parameter_count(), visited);
  EXPECT_EQ(parameters_of(c), visited);
  const std::int64_t more = 2 * (3 + 5) * c.max_length;
  EXPECT_EQ(visited - parameters_of(config("full")), more);
  c.blocks = 0;  // whatever is held
  EXPECT_EQ(parameters_of(c), visited);
  c.d_ff = 640;
  ModelConfig baseline = config("full");
  baseline.d_ff = 640;
  const MatchedSizes found = match_parameters(c, baseline);
  EXPECT_TRUE(found.is_equal());
  EXPECT_EQ(found.count, double(parameters_of(found.model)));
  EXPECT_LT(found.model.d_ff, 640);
}

TEST(MixedAttention, EncodersTakeTheirTurnsToo) {
  ModelConfig c = config("linformer,window");
  c.encoder_layers = 2;
  c.decoder_layers = c.blocks = 2;
  Transformer model(c);
  std::vector<std::string> found;
  model.visit_parameters([&](Parameter& p) {
    if (p.name.ends_with("attention.e")) found.push_back(p.name);
  });
  EXPECT_EQ(found, (std::vector<std::string>{"encoder.0.attention.e", "decoder.0.attention.e"}));
}

}  // namespace
}  // namespace scaling
