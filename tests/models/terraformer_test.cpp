// The Terraformer as a whole (paper 5.2 and 8): what its decoder reads, decoding
// equals evaluation with padded sources, a batch is its examples, bad knobs are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/transformer/decoder.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/model_harness.h"

namespace scaling {
namespace {

using Knobs = std::vector<std::pair<std::string, std::string>>;

/// Two blocks each side, two attentions a decoder block, dense components.
ModelConfig terraformer(const Knobs& knobs = {}) {
  ModelConfig c = small_config();
  c.encoder_layers = c.decoder_layers = 2;
  c.residual_stack = ResidualStack::reversible;
  c.attention_layers = 2;
  c.source = SourceUse::concatenated;
  set_field(c, "recurrence_width", 7);
  for (const auto& [name, value] : knobs) set_field(c, name, value);
  return c;
}

const Knobs kSparse = {{"feed_forward", "sparse"},
                       {"projection", "mult_conv"},
                       {"loss", "multiplicative"},
                       {"recurrence", "sru"}};

Knobs joined(Knobs all, const Knobs& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const std::vector<int> kTarget = {7, 1, 30, 30, 12, 44, 2, 9, 51};
/// Without padding, with padding behind, inside and before, and of one token.
const std::vector<std::vector<int>> kSources = {{5, 9, 33, 17, 3, 8}, {5, 9, 17, 0, 0, 0},
                                                {5, 0, 9, 17, 0, 3},  {0, 0, 21, 4, 0, 6},
                                                {58, 0, 0, 0, 0, 0},  {0, 0, 0, 0, 0, 2}};

double largest_difference(const Mat& a, const Mat& b) {
  return double((a - b).cwiseAbs().maxCoeff());
}

// -- what is in it --------------------------------------------------------------------------------

std::set<std::string> names_of(const ModelConfig& config) {
  std::set<std::string> names;
  Transformer(config).visit_parameters(
      [&](Parameter& p) { EXPECT_TRUE(names.insert(p.name).second) << p.name << " twice"; });
  return names;
}

std::set<std::string> names_of_block(const std::string& block,
                                     const std::vector<std::string>& attentions) {
  std::set<std::string> names;
  for (const std::string& number : attentions) {
    for (const char* part : {"q", "k", "v", "o"}) {
      for (const char* kind : {"", "_bias"}) {
        names.insert(block + "projection" + number + "." + part + kind);
      }
    }
    for (const char* part : {".scale", ".bias"}) {
      names.insert(block + "attention" + number + "_norm" + part);
    }
  }
  for (const char* rest : {"feed_forward_norm.scale", "feed_forward_norm.bias", "feed_forward.w1",
                           "feed_forward.b1", "feed_forward.w2", "feed_forward.b2"}) {
    names.insert(block + rest);
  }
  return names;
}

TEST(Terraformer, ParametersAreNamedByPlace) {
  std::set<std::string> expected = {"embedding",
                                    "encoder_positions",
                                    "decoder_positions",
                                    "encoder_output.w",
                                    "encoder_output.bias",
                                    "encoder_norm.scale",
                                    "encoder_norm.bias",
                                    "decoder_norm.scale",
                                    "decoder_norm.bias",
                                    "loss.w",
                                    "loss.bias"};
  expected.merge(names_of_block("encoder.0.", {""}));
  expected.merge(names_of_block("decoder.0.", {"", "2", "3"}));
  const ModelConfig c =
      terraformer({{"encoder_layers", "1"}, {"decoder_layers", "1"}, {"attention_layers", "3"}});
  EXPECT_EQ(names_of(c), expected);
  ModelConfig plain = c;
  plain.residual_stack = ResidualStack::plain;
  EXPECT_EQ(names_of(plain), expected);
  // Where both streams go on, there is neither a dense layer nor a norm behind the encoder.
  ModelConfig streams = c;
  streams.source = SourceUse::concatenated_streams;
  std::set<std::string> fewer = expected;
  for (const char* gone :
       {"encoder_output.w", "encoder_output.bias", "encoder_norm.scale", "encoder_norm.bias"}) {
    EXPECT_EQ(fewer.erase(gone), 1u);
  }
  EXPECT_EQ(names_of(streams), fewer);
  std::int64_t count = 0;
  Transformer whole(streams);
  whole.visit_parameters([&](Parameter& p) { count += p.count(); });
  EXPECT_EQ(whole.parameter_count(), count);
  // With cross-attention the dense layer behind the encoder goes.
  ModelConfig crossing = c;
  crossing.source = SourceUse::cross_attention;
  for (const std::string& name : names_of(crossing)) {
    EXPECT_EQ(name.find("encoder_output"), std::string::npos);
    EXPECT_TRUE(expected.count(name) || name.find(".cross_") != std::string::npos) << name;
  }
}

/// Paper 8.3: weights that a token reads of one block, and in all.
TEST(Terraformer, CountsOfTheReference) {
  ModelConfig c = config_of_shape("800m");
  c.residual_stack = ResidualStack::reversible;
  c.attention_layers = 2;
  c.source = SourceUse::concatenated;
  c.feed_forward = "sparse";
  c.projection = "mult_conv";
  c.d_ff = 6144;
  c.recurrence = "sru";
  c.loss = "multiplicative";
  set_field(c, "loss_modules", 4);
  const double d = 1024, vocab = 32000;
  // The reference counts the recurrence's norm with it.
  const double block = 2 * 169152 + 891904 + 71808 - 2 * d;
  const Transformer model(c, 1);
  EXPECT_EQ(total(model.block_cost(1, 20, 16)).weights, block);
  const double loss = 4 * d + d * vocab / 4 + vocab;
  const double rest = total(model.token_cost(1, 20, 16)).weights - 24 * block;
  EXPECT_GE(rest, loss);
  EXPECT_LE(rest, loss + 4 * d) << "beside the loss only embedding, position and norm are read";
  ModelConfig dense = config_of_shape("17b");
  dense.encoder = false;
  dense.residual_stack = ResidualStack::reversible;
  dense.attention_layers = 2;
  dense.source = SourceUse::concatenated;
  const double token = total(Transformer(dense, 1).token_cost(1, 20, 16)).weights;
  EXPECT_NEAR(token, 8902e6, 2e6);
  // A block has two caches of keys and values, of source and target.
  const double few = total(model.block_cost(1, 20, 16)).bytes,
               more = total(model.block_cost(1, 120, 16)).bytes;
  EXPECT_EQ(more - few, 2 * 100 * 2 * d * 4);
}

// -- what the decoder sees ------------------------------------------------------------------------

TEST(Terraformer, LogitsDependOnSourceAndEarlierTargetsOnly) {
  for (const Knobs& knobs : {Knobs{}, kSparse, Knobs{{"residual_stack", "plain"}},
                             Knobs{{"source", "concatenated_streams"}}}) {
    const auto model = decodable(terraformer(knobs));
    const Mat logits = model->forward(kSources[0], kTarget);
    ASSERT_EQ(logits.rows(), std::int64_t(kTarget.size()));
    std::vector<int> source = kSources[0];
    for (int& id : source) {
      id = 59 - id;
      EXPECT_GT(largest_difference(model->forward(source, kTarget).topRows(1), logits.topRows(1)),
                1e-4)
          << "the first position does not see the source";
      id = 59 - id;
    }
    std::vector<int> target = kTarget;
    target[4] = 20;
    const Mat changed = model->forward(kSources[0], target);
    EXPECT_TRUE(changed.topRows(5) == logits.topRows(5));
    for (std::int64_t t = 5; t < logits.rows(); ++t) {
      EXPECT_GT(largest_difference(changed.row(t), logits.row(t)), 1e-6) << t;
    }
  }
}

TEST(Terraformer, PaddingIsAsIfItWereNotThere) {
  for (const Knobs& knobs : {Knobs{}, kSparse, Knobs{{"residual_stack", "plain"}},
                             Knobs{{"source", "concatenated_streams"}}}) {
    const auto model = decodable(terraformer(knobs));
    const Mat expected = model->forward({5, 9, 17}, kTarget);
    const std::vector<std::vector<int>> padded = {
        {5, 9, 17, 0}, {5, 9, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    for (const std::vector<int>& source : padded) {
      expect_close(model->forward(source, kTarget), expected, "padding behind");
    }
    // Padding elsewhere moves the encoder's positions, so only its rows' order stays.
    EXPECT_GT(largest_difference(model->forward({5, 0, 9, 17}, kTarget), expected), 1e-4);
  }
}

TEST(Terraformer, EncoderOutputIsThatOfItsRows) {
  const auto model = decodable(terraformer());
  const Mat encoded = model->encode(kSources[1]);
  ASSERT_EQ(encoded.rows(), std::int64_t(kSources[1].size()));
  const Mat alone = model->encode({5, 9, 17});
  expect_close(encoded.topRows(3), alone, "rows before the padding");
}

// -- batches --------------------------------------------------------------------------------------

TEST(Terraformer, ABatchIsItsExamplesWithoutTheirPadding) {
  set_gemm_threads(1);
  for (const Knobs& knobs :
       {Knobs{}, kSparse, joined(kSparse, {{"selector", "hash"}}),
        joined(kSparse, {{"encoder_swaps", "1"}}), joined(kSparse, {{"source", "cross_attention"}}),
        joined(kSparse, {{"source", "concatenated_streams"}}),
        joined(kSparse, {{"encoder_layers", "0"}}),
        joined(kSparse, {{"residual_stack", "plain"}})}) {
    const ModelConfig c = terraformer(knobs);
    const auto model = trainable(c);
    const std::vector<Example> examples = three_examples(c);
    double expected = 0;
    for (const Example& e : examples) expected += evaluated(*model, batch_of({e})).loss;
    const CrossEntropy sums = evaluated(*model, batch_of(examples));
    EXPECT_EQ(sums.weight, 9 + 9 + 5);
    EXPECT_NEAR(sums.loss, expected, 1e-5 * expected);
  }
}

/// Models that draw nothing; the padding of one example must not reach another, nor itself.
TEST(Terraformer, GradientsOfABatchAreThoseOfItsExamples) {
  set_gemm_threads(1);
  const Knobs components = {
      {"projection", "mult_conv"}, {"loss", "multiplicative"}, {"recurrence", "sru"}};
  for (const Knobs& knobs :
       {Knobs{}, components,
        joined(components, {{"feed_forward", "sparse"}, {"hard_probability", "0"}}),
        joined(components, {{"residual_stack", "reversible_stored"}}),
        joined(components, {{"residual_stack", "plain"}}),
        joined(components, {{"source", "cross_attention"}}),
        joined(components, {{"source", "concatenated_streams"}})}) {
    const ModelConfig c = terraformer(knobs);
    const auto model = trainable(c);
    const std::vector<Example> examples = three_examples(c);
    const Step batch = step_of(*model, model_pass(true), batch_of(examples));
    Step sum = step_of(*model, model_pass(true), batch_of({examples[0]}));
    for (std::size_t i = 1; i < examples.size(); ++i) {
      const Step one = step_of(*model, model_pass(true), batch_of({examples[i]}));
      sum.sums.loss += one.sums.loss;
      for (std::size_t p = 0; p < one.gradients.size(); ++p) {
        sum.gradients[p] += one.gradients[p];
      }
    }
    EXPECT_NEAR(batch.sums.loss, sum.sums.loss, 1e-5 * sum.sums.loss);
    expect_same_gradients(batch, sum, 1e-4,
                          print_value(c.residual_stack) + " " + print_value(c.source));
  }
}

// -- decoding -------------------------------------------------------------------------------------

struct Decode {
  const KernelSet& kernels;
  int threads, tokens;
};

/// Logits of every position of every sequence, teacher-forced with the target.
std::vector<Mat> decoded(Decoder& decoder, int tokens, const std::vector<int>& source,
                         std::int64_t vocab) {
  decoder.begin(source);
  std::vector<Mat> logits(std::size_t(tokens), Mat(std::int64_t(kTarget.size()), vocab));
  std::vector<int> next;
  for (std::size_t t = 0; t < kTarget.size(); ++t) {
    EXPECT_EQ(decoder.position(), std::int64_t(t));
    decoder.step(std::vector<int>(std::size_t(tokens), t == 0 ? 0 : kTarget[t - 1]), next);
    for (int s = 0; s < tokens; ++s) {
      logits[std::size_t(s)].row(std::int64_t(t)) =
          Eigen::Map<const Eigen::RowVectorXf>(decoder.logits().data() + s * vocab, vocab);
    }
  }
  return logits;
}

/// One decoder for all sources, so that it has to forget.
void expect_steps_are_forward(const ModelConfig& config, const Decode& how) {
  const auto model = decodable(config);
  Team team(how.threads);
  Decoder decoder(*model, how.kernels, team, how.tokens, std::int64_t(kTarget.size()),
                  std::int64_t(kSources[0].size()));
  for (const std::vector<int>& source : kSources) {
    const Mat expected = model->forward(source, kTarget);
    const float scale = expected.cwiseAbs().maxCoeff();
    ASSERT_GT(scale, 0.1f);
    for (const Mat& ours : decoded(decoder, how.tokens, source, config.vocab_size)) {
      ASSERT_TRUE(ours.allFinite());
      EXPECT_LE(largest_difference(ours, expected), 1e-5 * double(scale))
          << testing::PrintToString(source) << ", kernels " << how.kernels.name << ", threads "
          << how.threads << ", sequences " << how.tokens;
    }
    if (config.decoder_only()) break;
  }
}

/// Everyone in every component, in a Terraformer.
TEST(TerraformerDecoding, StepsAreForwardForEveryComponent) {
  set_gemm_threads(1);
  for (const std::string& component : component_names()) {
    for (const std::string& name : causal_implementations_of(component)) {
      SCOPED_TRACE(component + " " + name);
      ModelConfig c = terraformer(joined({{"recurrence", "sru"}}, {{component, name}}));
      if (component.starts_with("cross_")) c.source = SourceUse::cross_attention;
      // One chunk and one cluster for all, so that a step sees what forward does.
      set_field(c, "lsh_chunk", 32);
      set_field(c, "routing_clusters", 1);
      set_field(c, "lsh_rounds", 1);
      expect_steps_are_forward(c, {find_kernel_set("simd"), 1, 2});
    }
  }
}

TEST(TerraformerDecoding, StepsAreForwardForEveryStack) {
  set_gemm_threads(1);
  for (const Knobs& knobs :
       {Knobs{}, Knobs{{"selector", "hash"}}, Knobs{{"selector", "random"}},
        Knobs{{"encoder_swaps", "1"}}, Knobs{{"attention_layers", "1"}},
        Knobs{{"attention_layers", "3"}}, Knobs{{"encoder_layers", "0"}},
        Knobs{{"encoder_layers", "0"}, {"decoder_layers", "3"}},
        Knobs{{"source", "cross_attention"}}, Knobs{{"residual_stack", "reversible_stored"}},
        Knobs{{"source", "concatenated_streams"}}, Knobs{{"position_encoding", "fixed_base"}},
        Knobs{{"source", "concatenated_streams"}, {"encoder_swaps", "1"}},
        Knobs{{"residual_stack", "plain"}},
        Knobs{{"residual_stack", "plain"}, {"encoder_layers", "0"}},
        Knobs{{"residual_stack", "plain"}, {"source", "cross_attention"}},
        Knobs{{"kernel_size", "1"}}, Knobs{{"kernel_size", "5"}}}) {
    const ModelConfig c = terraformer(joined(kSparse, knobs));
    std::string label;
    for (const auto& [name, value] : knobs) label += name + "=" + value + " ";
    SCOPED_TRACE(label);
    expect_steps_are_forward(c, {find_kernel_set("simd"), 1, 1});
  }
}

TEST(TerraformerDecoding, StepsAreForwardWhateverThreadsAndTypes) {
  set_gemm_threads(1);
  for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
    ModelConfig c = terraformer(kSparse);
    c.weight_type = type;
    const KernelSet &ref = find_kernel_set("ref"), &simd = find_kernel_set("simd");
    for (const Decode& how : {Decode{ref, 1, 1}, Decode{ref, 2, 3}, Decode{simd, 1, 3},
                              Decode{simd, 2, 1}, Decode{simd, 3, 2}}) {
      SCOPED_TRACE(name_of(type));
      expect_steps_are_forward(c, how);
    }
  }
}

TEST(TerraformerDecoding, CrossEntropyIsEvaluation) {
  set_gemm_threads(1);
  const ModelConfig c = terraformer(kSparse);
  const auto model = decodable(c);
  Team team(2);
  for (const Example& e : three_examples(c)) {
    Decoder decoder(*model, find_kernel_set("simd"), team, 1, 9, std::int64_t(e.source.size()));
    const CrossEntropy ours = decode_cross_entropy(decoder, e.source, e.target,
                                                   std::vector<float>(e.target.size(), 1.0f));
    const CrossEntropy expected = evaluated(*model, batch_of({e}));
    EXPECT_NEAR(ours.loss, expected.loss, 1e-5 * expected.loss);
    EXPECT_EQ(ours.correct, expected.correct);
  }
}

TEST(TerraformerDecoding, FreeRunningRepeatsItselfAndSelectsOneNeuronABlock) {
  const ModelConfig c = terraformer(kSparse);
  const auto model = decodable(c);
  Team team(2);
  Decoder decoder(*model, find_kernel_set("simd"), team, 1, 12, std::int64_t(kSources[1].size()));
  std::vector<std::vector<int>> runs;
  for (int run = 0; run < 2; ++run) {
    decoder.begin(kSources[1]);
    std::vector<int> ids(1, 0), next, all;
    for (int t = 0; t < 12; ++t) {
      const StepTiming timing = decoder.step(ids, next);
      EXPECT_GT(timing.block_seconds, 0);
      EXPECT_GT(timing.token_seconds, 2 * timing.block_seconds);
      all.push_back(next[0]);
      ids = next;
    }
    runs.push_back(all);
    const auto rows = decoder.touched_rows();
    ASSERT_EQ(std::int64_t(rows.size()), c.decoder_layers);
    for (const auto& block : rows) EXPECT_EQ(std::int64_t(block.size()), c.d_ff / sparsity_of(c));
  }
  EXPECT_EQ(runs[0], runs[1]);
}

/// As the decode tables do where an encoder does not fit: encoder output is drawn.
void expect_output_is_drawn(ModelConfig c) {
  c.encoder = false;
  c.blocks = 1;
  const auto model = decodable(c);
  Team team(2);
  Decoder decoder(*model, find_kernel_set("simd"), team, 1, 4, 6);
  std::vector<std::vector<float>> logits;
  for (int run = 0; run < 2; ++run) {
    decoder.begin(kSources[0]);
    std::vector<int> next;
    decoder.step({4}, next);
    logits.push_back(decoder.logits());
    for (const float v : logits.back()) ASSERT_TRUE(std::isfinite(v));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(TerraformerDecoding, WithoutEncoderItsOutputIsDrawn) {
  expect_output_is_drawn(terraformer(kSparse));
  expect_output_is_drawn(terraformer(joined(kSparse, {{"source", "concatenated_streams"}})));
}

// -- refusals -------------------------------------------------------------------------------------

TEST(TerraformerConfig, BadKnobsAreRefusedByName) {
  const auto refusal = [](const std::string& knob, const std::string& value) {
    return message_of([&] { validate(terraformer({{knob, value}})); });
  };
  EXPECT_EQ(refusal("attention_layers", "2"), "no error");
  expect_mentions(refusal("attention_layers", "0"), {"attention_layers", "0"});
  expect_mentions(refusal("attention_layers", "-1"), {"attention_layers", "-1"});
  expect_mentions(refusal("residual_stack", "sideways"),
                  {"residual_stack", "sideways", "plain", "reversible", "reversible_stored"});
  expect_mentions(refusal("source", "hearsay"),
                  {"source", "hearsay", "cross_attention", "concatenated"});
  EXPECT_EQ(refusal("source", "concatenated_streams"), "no error");
  expect_mentions(
      message_of([] {
        validate(terraformer({{"source", "concatenated_streams"}, {"residual_stack", "plain"}}));
      }),
      {"concatenated_streams", "plain", "reversible", "source concatenated"});
  expect_mentions(refusal("encoder_swaps", "3"), {"encoder_swaps", "3", "1", "2"});
  expect_mentions(refusal("encoder_swaps", "0"), {"encoder_swaps", "0", "1", "2"});
  expect_mentions(refusal("recompute_decisions", "maybe"), {"recompute_decisions", "maybe"});
}

TEST(TerraformerConfig, KnobsAreReadAsTheyArePrintedAndOutliveAShape) {
  const Knobs set = {{"residual_stack", "reversible_stored"},
                     {"attention_layers", "2"},
                     {"source", "concatenated"},
                     {"encoder_swaps", "1"},
                     {"recompute_decisions", "true"}};
  ModelConfig c;
  for (const auto& [name, value] : set) set_field(c, name, value);
  set_field(c, "shape", "17b");
  for (const auto& [name, value] : set) EXPECT_EQ(get_field(c, name), value);
}

}  // namespace
}  // namespace scaling
