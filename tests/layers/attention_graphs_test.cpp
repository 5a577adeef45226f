// Pairs that are left out of an evaluation from outside: against the definition, whatever the
// normaliser.
#include "models/attention_graphs.h"

#include <algorithm>
#include <mutex>

#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/window.h"
#include "models/sparsefinder/gold.h"
#include "models/transformer/transformer.h"
#include "tests/layers/attention_definition.h"

namespace scaling {
namespace {

constexpr std::int64_t kHeads = 3;

ModelConfig config(Normaliser normaliser) {
  ModelConfig c;
  c.d_model = 24;
  c.n_heads = kHeads;
  set_field(c, "window_width", 31);
  set_field(c, "normaliser", print_value(normaliser));
  return c;
}

/// The same for every head; counts who asks.
class Given : public AttentionGraphs {
 public:
  explicit Given(HeadGraph graph) : graph_(std::move(graph)) {}
  HeadGraph graph(std::int64_t attention, std::int64_t head, const Mat& q, const Mat& k) override {
    EXPECT_LT(head, kHeads);
    EXPECT_TRUE(q.rows() == graph_.positions() && k.rows() == q.rows() && q.cols() == 8);
    const std::lock_guard lock(mutex_);
    attentions.push_back(attention);
    return graph_;
  }
  std::vector<std::int64_t> attentions;

 private:
  HeadGraph graph_;
  std::mutex mutex_;
};

Mat forward(const SelfAttention& layer, const AttentionInput& in, bool causal,
            AttentionGraphs* graphs) {
  const auto kept = layer.make_activations();
  Pass pass = evaluation_pass();
  pass.graphs = graphs;
  Mat o;
  layer.forward(pass, in.q, in.k, in.v, {.causal = causal}, *kept, o);
  return o;
}

/// A third of the pairs, at random, each query's own key among them.
HeadGraph drawn(std::int64_t n) {
  Rng rng(3, 14);
  HeadGraph graph(n);
  for (std::int64_t i = 0; i < n; ++i) {
    graph.add(i, i);
    for (std::int64_t j = 0; j < n; ++j) {
      if (rng.below(3) == 0) graph.add(i, j);
    }
  }
  return graph;
}

TEST(AttentionGraphs, LeaveOutWhatTheyDoNotHold) {
  for (const std::int64_t n : {70, 700}) {
    const AttentionInput in(n, n, 24);
    const HeadGraph graph = drawn(n);
    const auto holds = [&](std::int64_t t, std::int64_t j) { return graph.has(t, j); };
    for (const bool causal : {false, true}) {
      for (const auto& [normaliser, alpha] :
           {std::pair(Normaliser::entmax15, 1.5), std::pair(Normaliser::sparsemax, 2.0),
            std::pair(Normaliser::softmax, 1.0)}) {
        Given given(graph);
        const FullAttention layer(config(normaliser));
        expect_close(forward(layer, in, causal, &given),
                     define_attention(in, kHeads, {.causal = causal}, alpha, holds).o,
                     print_value(normaliser) + " of " + std::to_string(n));
        EXPECT_EQ(given.attentions, std::vector<std::int64_t>(kHeads, 0));
      }
    }
  }
}

TEST(AttentionGraphs, OfAllPairsChangeNothing) {
  const AttentionInput in(600, 600, 24);
  const FullAttention layer(config(Normaliser::entmax15));
  for (const bool causal : {false, true}) {
    Given all(legal_graph(600, causal));
    const Mat expected = forward(layer, in, causal, nullptr);
    EXPECT_TRUE(forward(layer, in, causal, &all) == expected);
  }
}

/// Those with a weight.
class Gold : public AttentionGraphs {
 public:
  HeadGraph graph(std::int64_t, std::int64_t, const Mat& q, const Mat& k) override {
    HeadGraph found = gold_graph(q, k, true, *normaliser_).graph();
    const std::lock_guard lock(mutex_);
    left_out += legal_pairs(q.rows(), true) - found.pairs();
    ++asked;
    return found;
  }
  std::int64_t asked = 0, left_out = 0;

 private:
  std::unique_ptr<ThresholdNormaliser> normaliser_ = make_normaliser(Normaliser::entmax15, 1.5);
  std::mutex mutex_;
};

/// Sparse-consistency: what holds the support of a sparse normaliser has its result.
TEST(AttentionGraphs, OfTheGoldPairsChangeNothing) {
  const AttentionInput in(300, 300, 24);
  const FullAttention layer(config(Normaliser::entmax15));
  Gold gold;
  const Mat expected = forward(layer, in, true, nullptr);
  EXPECT_TRUE(forward(layer, in, true, &gold) == expected);
  EXPECT_GT(gold.left_out, 0);
}

/// The same of a whole model, from layer to layer: claim C1.
TEST(AttentionGraphs, OfTheGoldPairsLeaveAModelsLogits) {
  ModelConfig c = config(Normaliser::entmax15);
  c.encoder_layers = 0;
  c.decoder_layers = c.blocks = 4;
  c.d_ff = 48;
  c.vocab_size = 50;
  c.max_length = 128;
  c.embedding_scale = 20;  // tokens that are far apart
  Team team(1);
  Transformer model(c);
  model.allocate(team);
  Batch batch;
  batch.examples = 1;
  batch.input_length = c.max_length;
  Rng ids(5);
  for (std::int64_t t = 0; t < batch.input_length; ++t) {
    batch.input.push_back(int(ids.below(50)));
    batch.target.push_back(int(ids.below(50)));
    batch.weights.push_back(1);
  }
  const auto kept = model.make_activations();
  const auto logits = [&](AttentionGraphs* graphs) {
    Pass pass = evaluation_pass();
    pass.graphs = graphs;
    model.loss_of(pass, batch, *kept);
    return model.loss().forward(kept->decoder.normed);
  };
  const Mat expected = logits(nullptr);
  ASSERT_EQ(expected.rows(), batch.input_length);
  Gold gold;
  EXPECT_LT((logits(&gold) - expected).cwiseAbs().maxCoeff(), 1e-5f);
  EXPECT_EQ(gold.asked, c.decoder_layers * kHeads);
  EXPECT_GT(gold.left_out, 0);
  // Of other pairs they are others.
  Given near(window_graph(batch.input_length, 3));
  EXPECT_GT((logits(&near) - expected).cwiseAbs().maxCoeff(), 1e-3f);
}

TEST(AttentionGraphs, OfAWindowAreTheWindowAttention) {
  const AttentionInput in(200, 200, 24);
  Given given(window_graph(200, 31));
  const ModelConfig c = config(Normaliser::entmax15);
  expect_close(forward(FullAttention(c), in, true, &given),
               forward(WindowAttention(c), in, true, nullptr), "window");
}

TEST(AttentionGraphs, AQueryWithoutKeysGetsZeros) {
  const AttentionInput in(80, 80, 24);
  HeadGraph graph = legal_graph(80, true);
  for (std::int64_t j = 0; j < 80; ++j) {
    if (graph.has(40, j)) graph.row(40)[j / 64] &= ~(std::uint64_t(1) << (j % 64));
  }
  for (const Normaliser normaliser : {Normaliser::entmax15, Normaliser::softmax}) {
    Given given(graph);
    const Mat o = forward(FullAttention(config(normaliser)), in, true, &given);
    EXPECT_TRUE(o.row(40).isZero(0));
    EXPECT_FALSE(o.row(41).isZero(0));
  }
}

TEST(AttentionGraphs, AreAskedAttentionByAttention) {
  const AttentionInput in(20, 20, 24);
  Given given(legal_graph(20, true));
  const FullAttention layer(config(Normaliser::entmax15));
  const auto kept = layer.make_activations();
  Pass pass = evaluation_pass();
  pass.graphs = &given;
  Mat o;
  for (int i = 0; i < 2; ++i) layer.forward(pass, in.q, in.k, in.v, {.causal = true}, *kept, o);
  std::sort(given.attentions.begin(), given.attentions.end());
  EXPECT_EQ(given.attentions, (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1}));
}

}  // namespace
}  // namespace scaling
