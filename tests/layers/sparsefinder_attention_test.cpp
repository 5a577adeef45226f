// Attention by Sparsefinder's predictors, against the graphs that the offline study predicts and
// the definition of attention over a graph.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/initialize.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/window.h"
#include "models/layers/attention/sparsefinder.h"
#include "models/sparsefinder/graph.h"
#include "models/sparsefinder/predictors.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using Knobs = std::vector<std::pair<std::string, std::string>>;
using Seen = std::vector<std::uint8_t>;

constexpr std::int64_t kHeads = 3, kHead = 8;

ModelConfig config(const std::string& attention, const Knobs& knobs) {
  ModelConfig c = config_of_heads({{"attention", attention}, {"sparsefinder_rank", "4"}});
  for (const auto& [name, value] : knobs) set_field(c, name, value);
  return c;
}

/// What a parameter of a layer without memory starts from, as (heads * rows, rank) or so.
Mat drawn(SelfAttention& layer, const ModelConfig& c, const std::string& name, std::int64_t cols) {
  Mat values;
  layer.visit_parameters([&](Parameter& p) {
    if (p.name != name) return;
    EXPECT_TRUE(p.is_frozen);
    values.resize(p.count() / cols, cols);
    draw_values(c.seed, p.name, p.init, 0, p.count(), values.data());
  });
  EXPECT_GT(values.size(), 0) << name;
  return values;
}

/// Of each head what the offline predictors say of the rows that are seen, with additions.
std::vector<HeadGraph> graphs_of(SelfAttention& layer, const ModelConfig& c,
                                 const AttentionInput& in, const Seen& seen, bool causal) {
  const std::int64_t n = in.q.rows(), rank = 4;
  const auto knobs = c.options<SparsefinderClusterKnobs>();
  const Mat maps = drawn(layer, c, "map", rank);
  std::vector<std::int64_t> rows;
  for (std::int64_t t = 0; t < n; ++t) {
    if (seen.empty() || seen[std::size_t(t)]) rows.push_back(t);
  }
  std::vector<HeadGraph> all;
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const Mat map = maps.middleRows(head * kHead, kHead);
    const auto projected = [&](const Mat& x) {
      Mat to(std::int64_t(rows.size()), rank);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        to.row(std::int64_t(i)) = x.row(rows[i]).segment(head * kHead, kHead) * map;
      }
      return to;
    };
    const Mat q = projected(in.q), k = projected(in.k);
    HeadGraph found;
    if (c.attention == "sparsefinder_distance") {
      const float threshold = drawn(layer, c, "thresholds", 1)(head, 0);
      found = predict_by_distance(q, k, std::vector<float>{threshold})[0].graph;
    } else if (c.attention == "sparsefinder_kmeans") {
      const std::int64_t clusters = knobs.sparsefinder_clusters;
      const Mat centroids =
          drawn(layer, c, "centroids", rank).middleRows(head * clusters, clusters);
      found = predict_by_clusters(q, k, centroids, knobs.sparsefinder_nearest).graph;
    } else {
      const auto bins = c.options<SparsefinderQuantizationKnobs>().sparsefinder_bins;
      found = predict_by_quantization(q, k, std::min(bins, q.rows())).graph;
    }
    HeadGraph graph(n);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        if (found.has(std::int64_t(i), std::int64_t(j))) graph.add(rows[i], rows[j]);
      }
    }
    if (knobs.sparsefinder_window > 0) graph |= window_graph(n, knobs.sparsefinder_window);
    for (std::int64_t t = 0; t < n; ++t) {
      for (std::int64_t g = 0; g < std::min(n, knobs.sparsefinder_global); ++g) {
        graph.add(g, t);
        graph.add(t, g);
      }
    }
    keep_legal(graph, causal);
    all.push_back(std::move(graph));
  }
  return all;
}

Rule rule_of(const std::vector<HeadGraph>& graphs) {
  return [&graphs](const PatternCall& call, std::int64_t t, std::int64_t j) {
    return graphs[std::size_t(call.head)].has(t, j);
  };
}

double pairs_of(const std::vector<HeadGraph>& graphs) {
  double n = 0;
  for (const HeadGraph& graph : graphs) n += double(graph.pairs());
  return n;
}

Seen some_padding(std::int64_t length) {
  Seen seen(std::size_t(length), 1);
  for (std::int64_t t = 0; t < length; ++t) seen[std::size_t(t)] = t % 5 != 3;
  return seen;
}

/// Names and knobs of all predictors, with additions.
std::vector<std::pair<std::string, Knobs>> predictions() {
  const std::vector<std::pair<std::string, Knobs>> plain = {
      {"sparsefinder_distance", {{"sparsefinder_density", "0.2"}}},
      {"sparsefinder_kmeans", {{"sparsefinder_clusters", "5"}}},
      {"sparsefinder_kmeans", {{"sparsefinder_clusters", "6"}, {"sparsefinder_nearest", "2"}}},
      {"sparsefinder_quantization", {{"sparsefinder_bins", "7"}}}};
  std::vector<std::pair<std::string, Knobs>> all;
  for (const auto& [name, knobs] : plain) {
    for (const auto& [window, globals] :
         {std::pair("1", "0"), std::pair("7", "0"), std::pair("0", "2"), std::pair("5", "3")}) {
      all.emplace_back(name, knobs);
      all.back().second.emplace_back("sparsefinder_window", window);
      all.back().second.emplace_back("sparsefinder_global", globals);
    }
  }
  return all;
}

std::string text_of(const std::string& name, const Knobs& knobs) {
  std::string text = name;
  for (const auto& [knob, value] : knobs) text.append(" ").append(knob + "=" + value);
  return text;
}

void expect_is_definition(const std::string& name, Knobs knobs, std::int64_t length, bool causal,
                          bool is_padded, double alpha) {
  SCOPED_TRACE(text_of(name, knobs) + " " + scaling::text_of(length, causal) +
               (is_padded ? " padded" : "") + " alpha " + std::to_string(alpha));
  knobs.emplace_back("normaliser", alpha == 1 ? "softmax" : "entmax15");
  const ModelConfig c = config(name, knobs);
  const auto layer = make_self_attention(c);
  const Seen seen = is_padded ? some_padding(length) : Seen();
  const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
  const AttentionInput in(length, length, kHeads * kHead);
  const std::vector<HeadGraph> graphs = graphs_of(*layer, c, in, seen, causal);
  // Of a row that meets nobody the definition has no result.
  for (const HeadGraph& graph : graphs) {
    for (std::int64_t t = 0; t < length; ++t) {
      if (graph.pairs(t, {0, length}) == 0) return;
    }
  }
  expect_same(run_attention(*layer, training_pass(), in, mask),
              define_by_rule(in, kHeads, mask, alpha, rule_of(graphs)));
}

TEST(SparsefinderAttentionTest, IsTheDefinitionOverThePredictedGraph) {
  for (const auto& [name, knobs] : predictions()) {
    const bool causal = name != "sparsefinder_quantization";
    for (const double alpha : {1.0, 1.5}) {
      for (const bool is_padded : {false, true}) {
        expect_is_definition(name, knobs, 70, false, is_padded, alpha);
        if (causal) expect_is_definition(name, knobs, 70, true, is_padded, alpha);
      }
    }
    expect_is_definition(name, knobs, 3, false, false, 1.5);
    expect_is_definition(name, knobs, 600, causal, true, 1.5);  // several tiles
  }
}

TEST(SparsefinderAttentionTest, ARowThatMeetsNobodyGetsZeros) {
  const ModelConfig c = config("sparsefinder_distance",
                               {{"sparsefinder_density", "1e-6"}, {"sparsefinder_window", "0"}});
  const auto layer = make_self_attention(c);
  const AttentionInput in(90, 90, kHeads * kHead);
  EXPECT_TRUE(layer->forward(in.q, in.k, in.v, true).isZero(0));
  EXPECT_TRUE(decode_attention(*layer, in).isZero(0));
}

TEST(SparsefinderAttentionTest, WhereEveryoneMeetsItIsFull) {
  const AttentionInput in(600, 600, kHeads * kHead);
  for (const char* normaliser : {"softmax", "entmax15"}) {
    const ModelConfig c = config("sparsefinder_distance",
                                 {{"sparsefinder_density", "1"}, {"normaliser", normaliser}});
    const AttentionMask mask{.causal = true};
    const AttentionResult full = run_attention(FullAttention(c), training_pass(), in, mask);
    const AttentionResult all = run_attention(*make_self_attention(c), training_pass(), in, mask);
    EXPECT_TRUE(all.o == full.o && all.dq == full.dq && all.dk == full.dk && all.dv == full.dv);
    EXPECT_TRUE(decode_attention(*make_self_attention(c), in) ==
                decode_attention(FullAttention(c), in));
    const ModelConfig one =
        config("sparsefinder_kmeans", {{"sparsefinder_clusters", "1"}, {"normaliser", normaliser}});
    expect_same(run_attention(*make_self_attention(one), training_pass(), in, mask), full);
    // A point in all of the clusters meets everyone in one of them.
    const ModelConfig everywhere = config("sparsefinder_kmeans", {{"sparsefinder_clusters", "4"},
                                                                  {"sparsefinder_nearest", "4"},
                                                                  {"normaliser", normaliser}});
    expect_same(run_attention(*make_self_attention(everywhere), training_pass(), in, mask), full);
    // One bin a dimension holds all points; quantization is of encoders.
    const AttentionMask both{.causal = false};
    const ModelConfig bin = config("sparsefinder_quantization",
                                   {{"sparsefinder_bins", "1"}, {"normaliser", normaliser}});
    expect_same(run_attention(*make_self_attention(bin), training_pass(), in, both),
                run_attention(FullAttention(c), training_pass(), in, both));
  }
}

TEST(SparsefinderAttentionTest, WherePredictionsMeetNobodyTheWindowIsLeft) {
  const AttentionInput in(90, 90, kHeads * kHead);
  for (const char* normaliser : {"softmax", "entmax15"}) {
    const ModelConfig c = config("sparsefinder_distance", {{"sparsefinder_density", "1e-6"},
                                                           {"sparsefinder_window", "7"},
                                                           {"normaliser", normaliser}});
    ModelConfig local = c;
    set_field(local, "window_width", "7");
    for (const bool causal : {false, true}) {
      const AttentionMask mask{.causal = causal};
      expect_same(run_attention(*make_self_attention(c), training_pass(), in, mask),
                  run_attention(WindowAttention(local), training_pass(), in, mask));
    }
  }
}

TEST(SparsefinderAttentionTest, AStepIsForwardAndPaysForWhatItMeets) {
  const std::int64_t n = 150;
  const AttentionInput in(n, n, kHeads * kHead);
  for (const auto& [name, knobs] : predictions()) {
    if (name == "sparsefinder_quantization") continue;
    SCOPED_TRACE(text_of(name, knobs));
    Knobs own = knobs;
    own.emplace_back("normaliser", "entmax15");
    ModelConfig c = config(name, own);
    const auto layer = make_self_attention(c);
    expect_close(decode_attention(*layer, in), layer->forward(in.q, in.k, in.v, true), "step");
    // The last step's keys: both prices differ by what the pairs differ alone.
    const std::vector<HeadGraph> graphs = graphs_of(*layer, c, in, {}, true);
    double met = 0;
    for (const HeadGraph& graph : graphs) met += double(graph.pairs(n - 1, {0, n}));
    const auto cache = layer->make_cache(1, n);
    const double none = total(layer->step_cost_of(*cache, 1, n)).bytes;
    Barrier barrier(1);
    Mat o(1, kHeads * kHead);
    for (std::int64_t t = 0; t < n; ++t) {
      const StepContext ctx{find_kernel_set("simd"), barrier, 0, 1, 1, t, nullptr};
      layer->step(ctx, *cache, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(),
                  o.data());
    }
    // Every key that is met, and of values, which follow the probabilities, one a head.
    EXPECT_EQ(total(layer->step_cost_of(*cache, 1, n)).bytes, none + (met + kHeads) * kHead * 4);
    set_field(c, "normaliser", "softmax");
    const auto soft = make_self_attention(c);
    const auto of_soft = soft->make_cache(1, n);
    const double nothing = total(soft->step_cost_of(*of_soft, 1, n)).bytes;
    double pairs = 0;
    for (const HeadGraph& graph : graphs_of(*soft, c, in, {}, true)) {
      pairs += double(graph.pairs(n - 1, {0, n}));
    }
    for (std::int64_t t = 0; t < n; ++t) {
      const StepContext ctx{find_kernel_set("simd"), barrier, 0, 1, 1, t, nullptr};
      soft->step(ctx, *of_soft, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(),
                 o.data());
    }
    EXPECT_EQ(total(soft->step_cost_of(*of_soft, 1, n)).bytes, nothing + pairs * 2 * kHead * 4);
  }
}

TEST(SparsefinderAttentionTest, WorkIsCounted) {
  const std::int64_t n = 300;
  const AttentionInput in(n, n, kHeads * kHead);
  for (const auto& [name, knobs] : predictions()) {
    SCOPED_TRACE(text_of(name, knobs));
    const bool causal = name != "sparsefinder_quantization";
    const ModelConfig c = config(name, knobs);
    const auto layer = make_self_attention(c);
    const auto kept = layer->make_activations();
    Pass pass = evaluation_pass();
    Mat o;
    layer->forward(pass, in.q, in.k, in.v, {.causal = causal}, *kept, o);
    const double met = pairs_of(graphs_of(*layer, c, in, {}, causal));
    EXPECT_EQ(layer->work_of(*kept, n, causal).pairs, met);
    // An expectation, of points that are not spread so evenly.
    EXPECT_NEAR(layer->work(n, causal).pairs, met, 0.6 * met);
  }
}

/// The same parts, whatever queries and keys have become.
TEST(SparsefinderAttentionTest, AForwardThatIsComputedAgainDecidesAlike) {
  const std::int64_t n = 80;
  const AttentionInput in(n, n, kHeads * kHead);
  for (const auto& [name, knobs] : predictions()) {
    SCOPED_TRACE(text_of(name, knobs));
    const ModelConfig c = config(name, knobs);
    const auto layer = make_self_attention(c);
    const auto kept = layer->make_activations();
    Pass pass = training_pass();
    Mat o;
    layer->forward(pass, in.q, in.k, in.v, {}, *kept, o);
    const std::vector<HeadGraph> graphs = graphs_of(*layer, c, in, {}, false);
    AttentionInput other = in;
    other.q *= -2;
    Pass again = training_pass();
    again.recomputes = true;
    layer->forward(again, other.q, other.k, other.v, {}, *kept, o);
    bool is_whole = true;
    for (const HeadGraph& graph : graphs) {
      for (std::int64_t t = 0; t < n; ++t) is_whole &= graph.pairs(t, {0, n}) > 0;
    }
    if (is_whole) {
      expect_close(o, define_by_rule(other, kHeads, {}, 1, rule_of(graphs)).o, "again");
    }
    layer->forward(pass, other.q, other.k, other.v, {}, *kept, o);
    const Mat anew = o;
    again.reselects = true;
    layer->forward(again, other.q, other.k, other.v, {}, *kept, o);
    EXPECT_TRUE(o == anew);
  }
}

TEST(SparsefinderAttentionTest, DropoutIsRepeated) {
  for (const auto& [name, knobs] : predictions()) {
    if (name == "sparsefinder_quantization") continue;
    SCOPED_TRACE(text_of(name, knobs));
    expect_dropout_is_repeated(*make_self_attention(config(name, knobs)), 70);
  }
}

/// But for how many rows a product of a bucket has, which changes its rounding.
TEST(SparsefinderAttentionTest, LaterPositionsChangeNothing) {
  const std::int64_t n = 60;
  const AttentionInput in(n, n, kHeads * kHead);
  for (const auto& [name, knobs] : predictions()) {
    if (name == "sparsefinder_quantization") continue;
    SCOPED_TRACE(text_of(name, knobs));
    const auto layer = make_self_attention(config(name, knobs));
    const Mat before = layer->forward(in.q, in.k, in.v, true);
    for (const std::int64_t changed : {n - 1, n / 2, std::int64_t(1)}) {
      AttentionInput other = in;
      other.q.bottomRows(n - changed) *= -3;
      other.k.bottomRows(n - changed) *= 5;
      other.v.bottomRows(n - changed).array() += 2;
      const Mat apart = layer->forward(other.q, other.k, other.v, true) - before;
      EXPECT_LT(apart.topRows(changed).cwiseAbs().maxCoeff(), 1e-6f) << "from " << changed;
      EXPECT_GT(apart.bottomRows(n - changed).cwiseAbs().maxCoeff(), 0.1f);
    }
  }
}

TEST(SparsefinderAttentionTest, WhatCannotBeIsRefused) {
  const auto says = [](const std::string& name, const Knobs& knobs,
                       const std::vector<std::string>& words) {
    ModelConfig c = config(name, knobs);
    try {
      if (name == "sparsefinder_distance") SparsefinderDistanceAttention::validate(c);
      if (name == "sparsefinder_kmeans") SparsefinderClusterAttention::validate(c);
      if (name == "sparsefinder_quantization") SparsefinderQuantizationAttention::validate(c);
      ADD_FAILURE() << text_of(name, knobs);
    } catch (const UserError& error) {
      for (const std::string& word : words) {
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      }
    }
  };
  says("sparsefinder_distance", {{"sparsefinder_rank", "9"}}, {"sparsefinder_rank 9", "8"});
  says("sparsefinder_distance", {{"sparsefinder_window", "4"}}, {"sparsefinder_window 4", "odd"});
  says("sparsefinder_distance", {{"sparsefinder_density", "1.5"}}, {"sparsefinder_density 1.5"});
  says("sparsefinder_distance", {{"sparsefinder_density", "0"}}, {"sparsefinder_density 0"});
  says("sparsefinder_kmeans", {{"sparsefinder_clusters", "0"}}, {"sparsefinder_clusters"});
  says("sparsefinder_kmeans", {{"max_length", "16"}, {"sparsefinder_clusters", "17"}},
       {"sparsefinder_clusters 17", "max_length 16"});
  says("sparsefinder_kmeans", {{"sparsefinder_clusters", "2"}, {"sparsefinder_nearest", "3"}},
       {"sparsefinder_nearest 3", "2"});
  says("sparsefinder_quantization", {{"max_length", "16"}, {"sparsefinder_bins", "17"}},
       {"sparsefinder_bins 17", "16"});
  const auto quantization = make_self_attention(config("sparsefinder_quantization", {}));
  const AttentionInput in(10, 10, kHeads * kHead);
  EXPECT_THROW(quantization->forward(in.q, in.k, in.v, true), UserError);
  EXPECT_THROW(quantization->make_cache(1, 10), UserError);
}

}  // namespace
}  // namespace scaling
