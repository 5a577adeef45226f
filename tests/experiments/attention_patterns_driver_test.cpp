// Weights of attentions as their forwards give them, statistics of these, and the files of the
// driver.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <xtensor/xnpy.hpp>
#include <xtensor/xtensor.hpp>

#include "experiments/attention/weights.h"
#include "experiments/study/record.h"
#include "models/layers/attention/patterns/bigbird.h"
#include "models/layers/catalog.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

const std::string kConfig =
    std::string(SOURCE_DIR) + "/experiments/configs/attention/attention_patterns.cfg";

ModelConfig model_of(const std::string& attention, const Settings& knobs = {}) {
  ModelConfig model;
  set_field(model, "d_model", "16");
  set_field(model, "n_heads", "2");
  set_field(model, "decoder_layers", "2");
  set_field(model, "attention", attention);
  for (const auto& [knob, value] : knobs) set_field(model, knob, value);
  return model;
}

TEST(AttentionWeights, OfFullAttentionAreProbabilitiesOfAllThatMayBeSeen) {
  const std::int64_t length = 21;  // no multiple of a head's width
  for (const bool causal : {true, false}) {
    const Weights weights = attention_weights(model_of("full"), causal, length);
    ASSERT_EQ(weights.shape(0), 2u);
    ASSERT_EQ(weights.shape(1), 2u);
    ASSERT_EQ(weights.shape(2), 21u);
    ASSERT_EQ(weights.shape(3), 21u);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      for (std::size_t head = 0; head < 2; ++head) {
        for (std::size_t i = 0; i < 21; ++i) {
          double sum = 0;
          for (std::size_t j = 0; j < 21; ++j) {
            EXPECT_EQ(weights(layer, head, i, j) > 0, !causal || j <= i);
            sum += double(weights(layer, head, i, j));
          }
          EXPECT_NEAR(sum, 1, 1e-5);
        }
      }
    }
    // Layers have queries and keys of their own.
    EXPECT_NE(weights(0, 0, 20, 0), weights(1, 0, 20, 0));
  }
}

TEST(AttentionWeights, GraphsAreThoseOfThePatterns) {
  const std::int64_t length = 22;
  const auto window = graph_of(
      attention_weights(model_of("window", {{"window_width", "7"}}), /*causal=*/true, length));
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      EXPECT_EQ(window(1, 1, std::size_t(i), std::size_t(j)) == 1, j <= i && i - j <= 3);
    }
  }
  const ModelConfig model = model_of("bigbird", {{"bigbird_block", "2"}, {"bigbird_random", "2"}});
  const BigBird pattern(2, 2, RandomBlocks::uniform, model.seed);
  for (const bool causal : {true, false}) {
    const auto graph = graph_of(attention_weights(model, causal, length));
    for (std::int64_t head = 0; head < model.n_heads; ++head) {
      std::set<std::pair<std::int64_t, std::int64_t>> seen;
      pattern.for_each_pair(
          {.head = head, .queries = length, .keys = length, .causal = causal},
          [&seen](std::int64_t query, std::int64_t key) { seen.emplace(query, key); });
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t j = 0; j < length; ++j) {
          EXPECT_EQ(graph(0, std::size_t(head), std::size_t(i), std::size_t(j)) == 1,
                    seen.count({i, j}) > 0)
              << head << ": " << i << ", " << j;
        }
      }
    }
  }
}

TEST(AttentionWeights, StatisticsAreSumsOverQueriesAndKeys) {
  const std::int64_t length = 13;
  const Weights weights =
      attention_weights(model_of("full", {{"normaliser", "entmax15"}}), /*causal=*/true, length);
  const WeightStatistics found = statistics_of(weights, /*causal=*/true);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t head = 0; head < 2; ++head) {
      double pairs = 0, nats = 0, way = 0;
      for (std::size_t i = 0; i < 13; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          const double p = double(weights(layer, head, i, j));
          if (p == 0) continue;
          ++pairs;
          nats -= p * std::log(p);
          way += p * double(i - j);
        }
      }
      EXPECT_LT(pairs, 13 * 14 / 2) << "entmax leaves none out";
      EXPECT_NEAR(found.density(layer, head), pairs / (13 * 14 / 2), 1e-9);
      EXPECT_NEAR(found.entropy(layer, head), nats / 13, 1e-5);
      EXPECT_NEAR(found.distance(layer, head), way / 13, 1e-5);
    }
  }
}

TEST(AttentionPatternsDriver, WritesWhatOtherProgramsReadOnce) {
  const Folder folder;
  const std::string arguments =
      "--config '" + kConfig + "' --threads 1 --length 32 --results '" + folder.path() + "'";
  const Outcome first = run_driver("attention_patterns", arguments);
  ASSERT_EQ(first.status, 0) << first.text;
  const RecordFile file(folder.path(), "attention_patterns");
  std::set<std::string> attentions;
  for (const Record& r : file.records()) {
    EXPECT_EQ(r.status, Status::ok) << r.row;
    attentions.insert(r.config.at("attention").get<std::string>());
  }
  for (const auto& entry : entries_of("attention")) {
    if (entry.traits.has_graph) {
      EXPECT_TRUE(attentions.count(entry.name)) << entry.name;
    }
  }
  const std::string start = folder.path() + "/patterns/attention_patterns/banded.";
  const xt::xtensor<std::uint8_t, 4> graph = xt::load_npy<std::uint8_t>(start + "graph.npy");
  const xt::xtensor<float, 4> weights = xt::load_npy<float>(start + "weights.npy");
  const xt::xtensor<double, 2> density = xt::load_npy<double>(start + "density.npy");
  ASSERT_EQ(graph.shape(3), 32u);
  ASSERT_EQ(weights.shape(2), 32u);
  double pairs = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    for (std::size_t j = 0; j < 32; ++j) pairs += graph(1, 3, i, j);
  }
  EXPECT_EQ(pairs, 8 * 32 - 28);  // a band of 8, of which the first 7 queries lack 28 keys
  EXPECT_NEAR(density(1, 3), pairs / (32 * 33 / 2), 1e-9);

  const std::string before = contents(file.path());
  EXPECT_EQ(run_driver("attention_patterns", arguments).status, 0);
  EXPECT_EQ(contents(file.path()), before);
}

TEST(AttentionPatternsDriver, MistakesExitWithTwoAndASentence) {
  const Folder folder;
  std::ofstream(folder / "sums.cfg")
      << "d_model = 16\nn_heads = 2\nrow = sums: attention=performer\n";
  const std::string own = "--config '" + folder.path() + "/sums.cfg' ";
  const std::string known = "--config '" + kConfig + "' ";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {own, "there is no graph"},
      {known + "--length 0", "from 1 to"},
      {known + "--length 5000", "5000"},
      {known + "--rows nobody", "known are: full"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = run_driver("attention_patterns", arguments + " --dry-run");
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
  }
}

}  // namespace
}  // namespace scaling
