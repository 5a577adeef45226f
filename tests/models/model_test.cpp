// Whole models: decoding equals evaluation, values do not depend on layout or threads, bad input is
// refused in a sentence.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include "kernels/check.h"
#include "models/initialize.h"
#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/shapes.h"
#include "models/transformer/decoder.h"
#include "models/transformer/sampler.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/model_harness.h"

namespace scaling {
namespace {

const KernelSet& kernels() { return find_kernel_set("simd"); }

const std::vector<int> kSource = {5, 9, 0, 17, 3};
const std::vector<int> kTarget = {7, 1, 30, 30, 12, 44, 2, 9, 51};

struct Components {
  const char *feed_forward, *projection, *cross_projection, *loss;
};

ModelConfig with(const Components& components) {
  ModelConfig c = small_config();
  c.feed_forward = components.feed_forward;
  c.projection = components.projection;
  c.cross_projection = components.cross_projection;
  c.loss = components.loss;
  return c;
}

constexpr Components kBaseline = {"dense", "dense", "dense", "dense"};
constexpr Components kAllSparse = {"sparse", "mult_conv", "mult_conv", "multiplicative"};

/// What decoding made of every position, teacher-forced with kTarget in each of `tokens` sequences.
struct Decoded {
  std::vector<Mat> logits;  // of each sequence
  /// Rows that each block touched, by position.
  std::vector<std::vector<std::vector<std::int32_t>>> rows;
};

Decoded decoded(const Transformer& model, int threads, int tokens) {
  Team team(threads);
  Decoder decoder(model, kernels(), team, tokens, std::int64_t(kTarget.size()),
                  std::int64_t(kSource.size()));
  decoder.begin(kSource);
  const std::int64_t vocab = model.config().vocab_size;
  Decoded made;
  made.logits.assign(std::size_t(tokens), Mat(std::int64_t(kTarget.size()), vocab));
  std::vector<int> next;
  for (std::size_t t = 0; t < kTarget.size(); ++t) {
    decoder.step(std::vector<int>(std::size_t(tokens), t == 0 ? 0 : kTarget[t - 1]), next);
    made.rows.push_back(decoder.touched_rows());
    for (int s = 0; s < tokens; ++s) {
      const Eigen::Map<const Eigen::RowVectorXf> row(decoder.logits().data() + s * vocab, vocab);
      made.logits[std::size_t(s)].row(std::int64_t(t)) = row;
      std::int64_t best = 0;
      row.maxCoeff(&best);
      EXPECT_EQ(next[std::size_t(s)], best);
    }
  }
  return made;
}

/// What a block's feed-forward chose from in forward: logits (positions, groups * candidates),
/// each candidate so many rows.
struct Choices {
  Mat logits;
  std::vector<std::int32_t> chosen;  // (positions, groups)
  std::int64_t candidates = 0, rows_of_one = 1;
};

/// Choices of every block that chooses, in the order of the blocks.
std::vector<Choices> choices_of_forward(const Transformer& model) {
  const ModelConfig& c = model.config();
  const auto kept = model.make_activations(true);
  Pass pass = evaluation_pass();
  Batch batch = batch_of({{kSource, kTarget}});
  model.loss_of(pass, batch, *kept);
  std::vector<Choices> all;
  for (const auto& branch : kept->decoder.branches) {
    branch->for_each_decisions([&](Decisions& some) {
      const auto* own = &static_cast<const Activations&>(some);
      if (const auto* sparse = dynamic_cast<const SparseFeedForward::Kept*>(own)) {
        all.push_back({sparse->p, sparse->chosen, sparsity_of(c), 1});
      }
      if (const auto* moe = dynamic_cast<const MoeFeedForward::Kept*>(own)) {
        // The softmax's logarithms: their differences are those of the logits.
        all.push_back(
            {moe->p.array().log().matrix(), moe->chosen, experts_of(c), c.d_ff / experts_of(c)});
      }
    });
  }
  return all;
}

/// Positions up to the first that chose otherwise than forward; there the two best logits must be
/// within 1e-5.
std::int64_t same_selections(const std::vector<Choices>& choices, const Decoded& made) {
  for (std::size_t t = 0; t < made.rows.size(); ++t) {
    for (std::size_t block = 0; block < choices.size(); ++block) {
      const Choices& all = choices[block];
      const std::int64_t groups = all.logits.cols() / all.candidates;
      std::set<std::int64_t> expected;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int32_t best = all.chosen[t * std::size_t(groups) + std::size_t(g)];
        expected.insert(g * all.candidates + best);
      }
      bool same = true;
      for (const std::int32_t row : made.rows[t][block]) {
        const std::int64_t candidate = row / all.rows_of_one, group = candidate / all.candidates;
        if (expected.count(candidate)) continue;
        same = false;
        const auto logits = all.logits.row(std::int64_t(t));
        const float top = logits.segment(group * all.candidates, all.candidates).maxCoeff();
        EXPECT_LE(top - logits(candidate), 1e-5f) << "a different selection without a tie";
      }
      // One candidate of each group for every sequence, and the sequences are alike.
      EXPECT_GE(std::int64_t(made.rows[t][block].size()), groups * all.rows_of_one);
      if (!same) return std::int64_t(t);
    }
  }
  return std::int64_t(made.rows.size());
}

TEST(DecoderTest, StepsAreForward) {
  for (const Components& components :
       {kBaseline, kAllSparse,
        Components{"moe_switch", "mult_conv_shared_qk", "mult_conv_output", "low_rank"},
        Components{"moe_block", "local", "dense", "dense"},
        Components{"dense_relu_skip", "conv", "dense", "dense"}}) {
    for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
      ModelConfig c = with(components);
      c.weight_type = type;
      Transformer model(c);
      Team team(2);
      model.allocate(team);
      shake_vectors(model);
      const Mat expected = model.forward(kSource, kTarget);
      const std::vector<Choices> choices = choices_of_forward(model);
      const bool chooses = std::string(components.feed_forward).rfind("dense", 0) != 0;
      EXPECT_EQ(std::int64_t(choices.size()), chooses ? model.blocks() : 0);
      for (const int threads : {1, 2, 3}) {
        for (const int tokens : {1, 3}) {
          const Decoded made = decoded(model, threads, tokens);
          const std::string what = std::string(components.projection) + " " + name_of(type) +
                                   " threads " + std::to_string(threads) + " tokens " +
                                   std::to_string(tokens);
          SCOPED_TRACE(what);
          const std::int64_t compared = same_selections(choices, made);
          ASSERT_GT(compared, 0);
          for (const Mat& sequence : made.logits) {
            expect_close(sequence.topRows(compared), expected.topRows(compared), what);
            // The same sequence beside itself must not differ at all in what is sampled.
            EXPECT_LE((sequence - made.logits[0]).cwiseAbs().maxCoeff(), 1e-5f);
          }
        }
      }
    }
  }
}

/// The weights of dense layers in strips, of which the last is narrow, are the same weights.
TEST(DecoderTest, StepsOverStripsAreForward) {
  for (const Components& components : {kBaseline, kAllSparse}) {
    for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
      ModelConfig c = with(components);
      c.d_model = kStrip + 32;
      c.encoder_layers = c.decoder_layers = 1;
      c.weight_type = type;
      Transformer rows(c), strips(c);
      Team team(2);
      rows.allocate(team);
      strips.allocate(team, Layout::strips);
      std::int64_t in_strips = 0;
      const std::vector<Parameter*> same = rows.parameters();
      for (std::size_t i = 0; i < same.size(); ++i) {
        const Parameter& p = *strips.parameters()[i];
        in_strips += p.layout == Layout::strips;
        EXPECT_EQ(p.matrix(), same[i]->matrix()) << p.name;
      }
      EXPECT_GT(in_strips, 0);
      const Mat expected = rows.forward(kSource, kTarget);
      expect_close(strips.forward(kSource, kTarget), expected, "forward");
      const std::int64_t compared =
          same_selections(choices_of_forward(strips), decoded(strips, 2, 1));
      ASSERT_GT(compared, 0);
      for (const int tokens : {1, 3}) {
        const Decoded made = decoded(strips, 2, tokens);
        expect_close(made.logits[0].topRows(compared), expected.topRows(compared), "steps");
      }
    }
  }
}

/// Selections that are not forward's are found.
TEST(DecoderTest, ADifferentSelectionIsNoTie) {
  Transformer model(with(kAllSparse));
  Team team(1);
  model.allocate(team);
  const std::vector<Choices> choices = choices_of_forward(model);
  Decoded made = decoded(model, 1, 1);
  EXPECT_EQ(same_selections(choices, made), std::int64_t(kTarget.size()));
  std::int32_t& row = made.rows[4][1][0];
  row = (row + 1) % std::int32_t(sparsity_of(model.config()));
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(same_selections(choices, made), 4), "without a tie");
}

TEST(DecoderTest, FreeRunningRepeatsItselfAndForgetsBetweenDecodes) {
  Transformer model(with(kAllSparse));
  Team team(2);
  model.allocate(team);
  Decoder decoder(model, kernels(), team, 2, 12, std::int64_t(kSource.size()));
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<std::vector<int>> runs;
    for (int run = 0; run < 2; ++run) {
      decoder.begin(kSource);
      std::vector<int> ids(2, 0), next, all;
      for (int t = 0; t < 12; ++t) {
        const StepTiming timing = decoder.step(ids, next, {.temperature = temperature});
        EXPECT_GT(timing.block_seconds, 0);
        EXPECT_GT(timing.token_seconds, 2 * timing.block_seconds);
        if (temperature == 0) {
          EXPECT_EQ(next[0], next[1]);
        }
        all.insert(all.end(), next.begin(), next.end());
        ids = next;
      }
      runs.push_back(all);
    }
    EXPECT_EQ(runs[0], runs[1]);
  }
}

/// A profiled step computes the same, and its parts' times make up the block's.
void expect_profile(const ModelConfig& config, const std::set<BlockPart>& parts) {
  Transformer model(config);
  Team team(2);
  model.allocate(team);
  Decoder decoder(model, kernels(), team, 1, 12, std::int64_t(kSource.size()));
  std::vector<float> logits[2];
  for (const bool profiled : {false, true}) {
    decoder.begin(kSource);
    decoder.profile(profiled);
    StepTiming timing;
    std::vector<int> next;
    for (int t = 0; t < 3; ++t) timing = decoder.step({t + 1}, next);
    logits[profiled] = decoder.logits();
    double sum = 0;
    for (std::size_t part = 0; part < kParts; ++part) {
      const double seconds = decoder.part_seconds()[part];
      EXPECT_EQ(seconds > 0, profiled && parts.contains(BlockPart(part))) << kPartNames[part];
      sum += seconds;
    }
    if (profiled) {
      EXPECT_NEAR(sum, timing.block_seconds, 1e-9);
    }
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(DecoderTest, AProfileDividesABlocksTimeAmongItsParts) {
  const std::set<BlockPart> transformer = {BlockPart::layer_norms,     BlockPart::projection,
                                           BlockPart::self_attention,  BlockPart::cross_projection,
                                           BlockPart::cross_attention, BlockPart::feed_forward};
  expect_profile(with(kAllSparse), transformer);
  ModelConfig terraformer = with(kAllSparse);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"residual_stack", "reversible"},
                                          {"attention_layers", "2"},
                                          {"source", "concatenated"},
                                          {"recurrence", "sru"}}) {
    set_field(terraformer, name, value);
  }
  expect_profile(terraformer,
                 {BlockPart::layer_norms, BlockPart::projection, BlockPart::self_attention,
                  BlockPart::feed_forward, BlockPart::recurrence});
}

/// A dense feed-forward's threads meet before sums are added up and after; one alone meets nobody.
TEST(DecoderTest, AProfileCountsTheBarriersOfEachPart) {
  for (const int threads : {1, 2}) {
    Transformer model(with(kBaseline));
    Team team(threads);
    model.allocate(team);
    Decoder decoder(model, kernels(), team, 1, 12, std::int64_t(kSource.size()));
    decoder.begin(kSource);
    decoder.profile(true);
    std::vector<int> next;
    const unsigned before = team.barrier().meetings();
    decoder.step({1}, next);
    const PerPart<double> barriers = decoder.part_barriers();
    EXPECT_EQ(barriers[std::size_t(BlockPart::feed_forward)], threads == 1 ? 0 : 2);
    EXPECT_EQ(barriers[std::size_t(BlockPart::layer_norms)], 0);
    const double of_block = std::accumulate(barriers.begin(), barriers.end(), 0.0);
    EXPECT_LE(of_block * double(model.blocks()), team.barrier().meetings() - before);
    EXPECT_EQ(of_block > 2, threads == 2);
  }
}

/// Every part's phases, one after the other, are the block's.
TEST(DecoderTest, PartsCostsAddUpToTheBlocks) {
  const Transformer model(with(kAllSparse));
  const PerPart<Cost> parts = model.block_cost_by_part(1, 5, 7);
  const Cost block = model.block_cost(1, 5, 7);
  std::size_t at = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    EXPECT_EQ(parts[part].empty(), BlockPart(part) == BlockPart::recurrence);
    for (const Phase& phase : parts[part]) {
      ASSERT_LT(at, block.size());
      EXPECT_EQ(phase.name, block[at].name);
      EXPECT_EQ(phase.name.rfind(kPartNames[part], 0), 0u) << phase.name;
      EXPECT_EQ(phase.bytes, block[at++].bytes);
    }
  }
  EXPECT_EQ(at, block.size());
}

TEST(DecoderTest, TouchedRowsAreOnePerBlockAndToken) {
  const ModelConfig c = with(kAllSparse);
  Transformer model(c);
  Team team(1);
  model.allocate(team);
  Decoder decoder(model, kernels(), team, 1, 4, 3);
  decoder.begin(model.encode({1, 2, 3}));
  std::vector<int> next;
  decoder.step({4}, next);
  const auto rows = decoder.touched_rows();
  ASSERT_EQ(std::int64_t(rows.size()), model.blocks());
  for (const auto& block : rows) {
    ASSERT_EQ(std::int64_t(block.size()), c.d_ff / sparsity_of(c));
    for (std::size_t b = 0; b < block.size(); ++b)
      EXPECT_EQ(block[b] / sparsity_of(c), std::int64_t(b));
  }
}

TEST(DecoderTest, PretendedPositionsAreAttendedTo) {
  Transformer model(with(kBaseline));
  Team team(2);
  model.allocate(team);
  Decoder decoder(model, kernels(), team, 1, 20, 3);
  std::vector<std::vector<float>> logits;
  for (const std::int64_t length : {0, 10}) {
    decoder.begin(model.encode({1, 2, 3}));
    decoder.pretend_position(length);
    EXPECT_EQ(decoder.position(), length);
    std::vector<int> next;
    decoder.step({4}, next);
    EXPECT_EQ(decoder.position(), length + 1);
    logits.push_back(decoder.logits());
    for (const float v : logits.back()) ASSERT_TRUE(std::isfinite(v));
  }
  EXPECT_NE(logits[0], logits[1]);
}

TEST(DecoderTest, RefusesWhatItCannotDo) {
  Transformer model(with(kBaseline));
  Team team(1);
  model.allocate(team);
  const auto make = [&](int tokens, std::int64_t capacity) {
    Decoder(model, kernels(), team, tokens, capacity, 4);
  };
  EXPECT_NO_THROW(make(kMaxTokens, 8));
  EXPECT_THROW(make(0, 8), UserError);
  EXPECT_THROW(make(kMaxTokens + 1, 8), UserError);
  EXPECT_THROW(make(1, 65), UserError);  // max_length is 64
}

TEST(ModelTest, WithoutEncoderItsOutputIsDrawnFromTheSeed) {
  ModelConfig c = with(kAllSparse);
  c.encoder = false;
  c.blocks = 1;
  Transformer model(c);
  Team team(1);
  model.allocate(team);
  const Mat drawn = model.encode({1, 2, 3, 4});
  ASSERT_EQ(drawn.rows(), 4);
  EXPECT_EQ(drawn, model.encode({4, 3, 2, 1}));
  EXPECT_NEAR(drawn.squaredNorm() / float(drawn.size()), 1, 0.3);
}

/// What is drawn at the first positions.
std::vector<int> draws(const std::vector<float>& logits, Sampling how, int positions, int threads) {
  Sampler sampler(std::int64_t(logits.size()), 1, threads, 3);
  std::vector<int> drawn(static_cast<std::size_t>(positions));
  Team team(threads);
  int id = -1;
  team.run([&](int thread) {
    for (int position = 0; position < positions; ++position) {
      const StepContext ctx{kernels(), team.barrier(), thread, threads, 1, position, nullptr};
      sampler.sample(ctx, logits.data(), how, &id);
      if (thread == 0) drawn[std::size_t(position)] = id;
      ctx.sync();
    }
  });
  return drawn;
}

/// How often each is drawn at 20,000 positions; at a few of them two threads have to draw the same,
/// which takes longer than all by one where other programs are running.
std::vector<int> frequencies(const std::vector<float>& logits, Sampling how) {
  std::vector<int> drawn = draws(logits, how, 20000, 1);
  std::vector<int> seen(logits.size(), 0);
  for (const int id : drawn) ++seen[std::size_t(id)];
  drawn.resize(500);
  EXPECT_EQ(draws(logits, how, 500, 2), drawn) << "draws depend on the threads";
  return seen;
}

TEST(SamplerTest, DrawsFromTheSoftmax) {
  const std::vector<float> p = {0.5f, 0.1f, 0.1f, 0.3f};
  // Spread out, so that several threads own a share.
  std::vector<float> logits(40, -1e9f);
  for (std::size_t i = 0; i < p.size(); ++i) logits[10 * i] = std::log(p[i]);
  for (const float temperature : {1.0f, 0.5f}) {
    const std::vector<int> seen = frequencies(logits, {temperature});
    float sum = 0;
    for (const float v : p) sum += std::pow(v, 1 / temperature);
    for (std::size_t i = 0; i < p.size(); ++i) {
      EXPECT_NEAR(seen[10 * i] / 20000.0, std::pow(p[i], 1 / temperature) / sum, 0.015);
    }
  }
  EXPECT_EQ(frequencies(logits, {})[0], 20000) << "temperature 0 is the argmax";
}

TEST(SamplerTest, DrawsAmongTheLikeliest) {
  // 0.4, 0.1, 0.2, 0.1, 0.2: of equal ones the lower id is the likelier.
  const std::vector<float> p = {0.4f, 0.1f, 0.2f, 0.1f, 0.2f};
  std::vector<float> logits(40, -1e9f);
  for (std::size_t i = 0; i < p.size(); ++i) logits[8 * i] = std::log(p[i]);
  for (const auto& [most, kept] :
       {std::pair(1, std::vector<std::size_t>{0}), std::pair(2, std::vector<std::size_t>{0, 2}),
        std::pair(4, std::vector<std::size_t>{0, 1, 2, 4})}) {
    const std::vector<int> seen = frequencies(logits, {1, most});
    float sum = 0;
    int drawn = 0;
    for (const std::size_t i : kept) sum += p[i];
    for (const std::size_t i : kept) {
      EXPECT_NEAR(seen[8 * i] / 20000.0, p[i] / sum, 0.015) << most;
      drawn += seen[8 * i];
    }
    EXPECT_EQ(drawn, 20000) << most;
  }
  EXPECT_EQ(frequencies(logits, {1, 40}), frequencies(logits, {1})) << "all of them";
  EXPECT_EQ(frequencies(logits, {0, 3})[0], 20000);
}

TEST(InitializeTest, DrawsAreTheCounterBasedOnes) {
  // FNV-1a of "a" is a published test vector: it pins the stream a name stands for.
  const std::uint64_t stream = 0xaf63dc4c8601ec8cu;
  std::vector<float> drawn(1000);
  draw_values(7, "a", {Initializer::Kind::uniform, 2}, 5, 1000, drawn.data());
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto bits = random_bits(7, stream, std::uint64_t((5 + i) / 4));
    const float unit = unit_float(bits[std::size_t((5 + i) % 4)]);
    EXPECT_NEAR(drawn[std::size_t(i)], 2 * (2 * unit - 1), 1e-6);
  }
}

TEST(InitializeTest, ValuesDoNotDependOnLayoutThreadsOrType) {
  const auto make = [](Layout layout, WeightType type, int threads, Initializer init) {
    Parameter p = Parameter::make_matrix("some.name", 37, 1100, layout, init);
    Arena arena(arena_bytes({&p}, type));
    Team team(threads);
    initialize({&p}, type, 9, arena, team);
    return p.matrix();
  };
  for (const Initializer init :
       {Initializer{Initializer::Kind::uniform, 0.3f}, Initializer{Initializer::Kind::normal, 0.5f},
        Initializer{Initializer::Kind::positions, 0}}) {
    const Mat plain = make(Layout::rows, WeightType::f32, 1, init);
    EXPECT_GT(plain.cwiseAbs().maxCoeff(), 0.1f);
    EXPECT_EQ(plain, make(Layout::panels, WeightType::f32, 3, init));
    EXPECT_EQ(plain, make(Layout::strips, WeightType::f32, 2, init));
    const Mat half = plain.unaryExpr([](float v) { return to_float(to_bf16(v)); });
    EXPECT_EQ(half, make(Layout::rows, WeightType::bf16, 2, init));
    EXPECT_EQ(half, make(Layout::panels, WeightType::bf16, 1, init));
    EXPECT_EQ(half, make(Layout::strips, WeightType::bf16, 3, init));
  }
}

TEST(InitializeTest, MomentsAreTheInitialisers) {
  std::vector<float> drawn(200000);
  for (const bool normal : {false, true}) {
    const auto kind = normal ? Initializer::Kind::normal : Initializer::Kind::uniform;
    draw_values(1, "moments", {kind, 0.5f}, 0, std::int64_t(drawn.size()), drawn.data());
    double sum = 0, squares = 0, fourth = 0;
    for (const double v : drawn) {
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
    const double n = double(drawn.size()), variance = normal ? 0.25 : 0.25 / 3;
    EXPECT_NEAR(sum / n, 0, 0.005);
    EXPECT_NEAR(squares / n / variance, 1, 0.02);
    EXPECT_NEAR(fourth / n / (variance * variance), normal ? 3 : 1.8, 0.1);
  }
}

TEST(InitializeTest, PositionTableIsSinesAndCosines) {
  Transformer model(config_of_shape("tiny"));
  Team team(1);
  model.allocate(team);
  const Parameter& table = model.decoder().positions.weights;
  EXPECT_EQ(table.get(0, 0), 0);
  EXPECT_EQ(table.get(0, 1), 1);
  EXPECT_NEAR(table.get(3, 2), std::sin(3 / std::pow(10000.0, 2.0 / 32)), 1e-6);
  EXPECT_NEAR(table.get(3, 3), std::cos(3 / std::pow(10000.0, 2.0 / 32)), 1e-6);
}

std::string refusal_of(const std::vector<std::pair<std::string, std::string>>& knobs) {
  return message_of([&] {
    ModelConfig c = config_of_shape("800m");
    for (const auto& [name, value] : knobs) set_field(c, name, value);
    Transformer model(c, 1);
  });
}

void expect_names(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << message << "' lacks " << word;
  }
}

TEST(ConfigTest, BadSizesNameBothNumbers) {
  expect_names(refusal_of({{"feed_forward", "sparse"}, {"sparsity", "65"}}), {"4096", "65"});
  expect_names(refusal_of({{"projection", "mult_conv"}, {"modules", "17"}}), {"1024", "17"});
  expect_names(refusal_of({{"cross_projection", "mult_conv"}, {"modules", "18"}}), {"1024", "18"});
  expect_names(refusal_of({{"n_heads", "15"}}), {"1024", "15"});
  expect_names(refusal_of({{"feed_forward", "moe_block"}, {"experts", "63"}}), {"4096", "63"});
  expect_names(refusal_of({{"loss", "multiplicative"}, {"loss_modules", "7"}}), {"32000", "7"});
  expect_names(refusal_of({{"projection", "mult_conv"}, {"modules", "512"}}), {"512", "256"});
  expect_names(refusal_of({{"blocks", "25"}}), {"25", "24"});
  expect_names(refusal_of({{"d_model", "0"}}), {"d_model", "0"});
  expect_names(refusal_of({{"feed_forward", "sparse"}, {"sparsity", "0"}}), {"sparsity", "0"});
}

TEST(ConfigTest, UnknownNamesListTheKnown) {
  for (const std::string component : {"feed_forward", "projection", "cross_projection", "loss"}) {
    std::vector<std::string> words = implementations_of(component);
    EXPECT_GE(words.size(), 3u);
    words.insert(words.end(), {component, "nonsense"});
    expect_names(refusal_of({{component, "nonsense"}}), words);
  }
  expect_names(refusal_of({{"nonsense", "1"}}), field_names());
  expect_names(refusal_of({{"shape", "nonsense"}}), shape_names());
  expect_names(message_of([] { implementations_of("nonsense"); }), component_names());
  expect_names(message_of([] { make_attention("nonsense", ModelConfig()); }), {"nonsense", "full"});
}

TEST(ConfigTest, ReadsWhatItPrints) {
  ModelConfig c = config_of_shape("17b");
  set_field(c, "weight_type", "bf16");
  set_field(c, "loss", "multiplicative");
  ModelConfig copy;
  for (const std::string& name : field_names()) set_field(copy, name, get_field(c, name));
  for (const std::string& name : field_names())
    EXPECT_EQ(get_field(copy, name), get_field(c, name));
  EXPECT_EQ(copy.d_ff, 40960);
  EXPECT_FALSE(copy.encoder);
  for (const char* bad : {"", "12x", "1.5", "99999999999999999999"}) {
    expect_names(refusal_of({{"d_model", bad}}), {"d_model", bad});
  }
  expect_names(refusal_of({{"encoder", "maybe"}}), {"maybe"});
}

TEST(ConfigTest, AutomaticBlocksAreReadAndPrinted) {
  ModelConfig c = config_of_shape("800m");
  EXPECT_EQ(get_field(c, "blocks"), "auto");
  set_field(c, "blocks", "3");
  EXPECT_EQ(get_field(c, "blocks"), "3");
  for (const char* text : {"auto", "0"}) {
    c.blocks = 3;
    set_field(c, "blocks", text);
    EXPECT_EQ(c.blocks, 0);
    EXPECT_EQ(get_field(c, "blocks"), "auto");
  }
  expect_names(refusal_of({{"blocks", "all"}}), {"blocks", "all"});
  expect_names(refusal_of({{"decoder_layers", "auto"}}), {"decoder_layers", "auto"});
}

/// What is no size stays: components and what they do, weights and their seed.
TEST(ConfigTest, AShapeTakesSizesOnly) {
  const Settings kept = {{"embedding_scale", "7"},
                         {"feed_forward", "sparse"},
                         {"feed_forward_bias", "true"},
                         {"selector", "hash"},
                         {"selection_noise", "7"},
                         {"hard_probability", "0.7"},
                         {"selection_balance", "0.7"},
                         {"selection_entropy", "0.7"},
                         {"kernel_scaling", "true"},
                         {"tap_scaling", "true"},
                         {"projection", "conv"},
                         {"cross_projection", "mult_conv"},
                         {"attention", "lsh"},
                         {"encoder_attention", "window"},
                         {"cross_attention", "linformer"},
                         {"lsh_graph", "buckets"},
                         {"lsh_count", "once"},
                         {"position_encoding", "fixed_base"},
                         {"normaliser", "entmax15"},
                         {"entmax_alpha", "1.7"},
                         {"bigbird_blocks", "plan"},
                         {"longformer_projections", "own"},
                         {"loss", "low_rank"},
                         {"residual_stack", "reversible"},
                         {"attention_layers", "7"},
                         {"source", "concatenated"},
                         {"encoder_swaps", "1"},
                         {"recompute_decisions", "true"},
                         {"recurrence", "sru"},
                         {"weight_type", "bf16"},
                         {"seed", "7"},
                         {"performer_directions", "independent"},
                         {"performer_redraw", "never"},
                         {"linformer_sharing", "key_value"},
                         {"future_tokens", "3"},
                         {"routing_decay", "0.7"},
                         {"routing_commitment", "0.7"},
                         {"sparsefinder_density", "0.7"}};
  ModelConfig c;
  for (const auto& [name, value] : kept) set_field(c, name, value);
  std::set<std::string> names;
  for (const auto& [name, value] : kept) names.insert(name);
  for (const std::string& name : field_names()) {
    if (!names.count(name) && name != "shape") {
      set_field(c, name, name == "encoder" ? "false" : "6");
    }
  }
  set_field(c, "shape", "17b");
  const ModelConfig sized = config_of_shape("17b");
  for (const auto& [name, value] : kept) EXPECT_EQ(get_field(c, name), value);
  for (const std::string& name : field_names()) {
    if (names.count(name)) continue;
    EXPECT_EQ(get_field(c, name), get_field(sized, name)) << name;
  }
}

TEST(ConfigTest, AShapeKeepsTheComponents) {
  ModelConfig c;
  set_field(c, "projection", "mult_conv");
  set_field(c, "weight_type", "bf16");
  set_field(c, "shape", "17b");
  EXPECT_EQ(c.projection, "mult_conv");
  EXPECT_EQ(c.weight_type, WeightType::bf16);
  EXPECT_EQ(modules_of(c), 64);
  EXPECT_EQ(c.options<SparseKnobs>().d_lowrank, 32);
}

TEST(ConfigTest, EveryShapeMakesAModel) {
  EXPECT_GE(shapes().size(), 30u);
  for (const std::string& name : shape_names()) {
    ModelConfig c = config_of_shape(name);
    c.blocks = 1;
    const Transformer model(c);
    EXPECT_GT(model.parameter_count(), 0) << name;
    EXPECT_GT(total(model.block_cost(1, 1, 1)).weights, 0) << name;
  }
}

TEST(ModelTest, RefusesMoreThanMemoryBeforeTakingIt) {
  ModelConfig c = config_of_shape("800m");
  c.d_ff = std::int64_t(1) << 36;  // half a pebibyte a block
  c.blocks = 1;
  Transformer model(c);
  Team team(1);
  const std::string message = message_of([&] { model.allocate(team); });
  expect_names(message, {"--blocks", "--weight_type", "--shape"});
  EXPECT_TRUE(std::regex_search(message, std::regex("[0-9.]+ GiB.*[0-9.]+ GiB"))) << message;
  EXPECT_EQ(model.arena().data(), nullptr);
}

}  // namespace
}  // namespace scaling
