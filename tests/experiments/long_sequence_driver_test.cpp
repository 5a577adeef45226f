// The driver of the long-sequence experiment as a user meets it, at a size of seconds, and what it
// measures.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "experiments/attention/core_measure.h"
#include "experiments/instruments/memory.h"
#include "experiments/study/counts.h"
#include "experiments/study/record.h"
#include "kernels/gemm.h"
#include "models/layers/catalog.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

const std::string kConfig =
    std::string(SOURCE_DIR) + "/experiments/configs/attention/long_sequence.cfg";

Outcome run_driver(const std::string& arguments) {
  return scaling::run_driver("long_sequence", arguments);
}

std::string tiny(const Folder& folder) {
  return "--config '" + kConfig + "' --results '" + folder.path() +
         "' --threads 1 --quick --repeats 2 --d_model 16 --n_heads 2 --lsh_chunk 4 ";
}

// -- the driver -----------------------------------------------------------------------------------

TEST(LongSequenceDriver, MeasuresRecordsAndRepeatsNothing) {
  const Folder folder;
  const Outcome first = run_driver(tiny(folder) + "--lengths 16,33");
  ASSERT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"full_l16: 1 thread", "full_l33", "ms a step"});
  const RecordFile file(folder.path(), "long_sequence");
  std::map<std::string, std::set<std::string>> metrics;
  for (const Record& r : file.records()) {
    metrics[r.row].insert(r.metric);
    EXPECT_EQ(r.status, Status::ok) << r.row << " " << r.metric << ": " << r.note;
    EXPECT_TRUE(std::isfinite(r.value) && r.value >= 0) << r.row << " " << r.metric;
    expect_mentions(r.command,
                    {"long_sequence --config experiments/configs/attention/long_sequence.cfg",
                     "--d_model 16", "--threads 1"});
  }
  for (const char* row : {"full_l16", "lsh_l16", "full_l33", "lsh_l33"}) {
    for (const char* metric : {"heap_bytes", "forward_heap_bytes", "gemm_gflops", "forward_flops",
                               "step_flops", "forward_ms", "step_ms", "forward_efficiency",
                               "step_efficiency", "step_tokens_per_s", "step_us_per_token"}) {
      EXPECT_TRUE(metrics[row].count(metric)) << row << " " << metric;
    }
  }

  const std::string before = contents(file.path());
  const Outcome again = run_driver(tiny(folder) + "--lengths 16,33");
  EXPECT_EQ(again.status, 0) << again.text;
  expect_mentions(again.text,
                  {"full_l16: 1 thread already measured", "lsh_l33: 1 thread already measured"});
  EXPECT_EQ(contents(file.path()), before);

  // One more length is all that is added.
  EXPECT_EQ(run_driver(tiny(folder) + "--lengths 16,33,40").status, 0);
  const std::string more = contents(file.path()).substr(before.size());
  EXPECT_NE(more.find("full_l40"), std::string::npos);
  EXPECT_EQ(more.find("_l33"), std::string::npos);
}

TEST(LongSequenceDriver, WhatWouldTakeTooLongIsSkippedOnceWithTheReason) {
  const Folder folder;
  const std::string arguments = tiny(folder) + "--lengths 16,4000 --step-limit 1e-4";
  const Outcome first = run_driver(arguments);
  EXPECT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"full_l4000, 1 thread: skipped, a training step would take about"});
  const RecordFile file(folder.path(), "long_sequence");
  int skipped = 0;
  for (const Record& r : file.records()) {
    if (r.status != Status::skipped) continue;
    ++skipped;
    EXPECT_TRUE(std::isnan(r.value));
    EXPECT_EQ(r.metric, "step_ms");
    expect_mentions(r.note, {"--step-limit"});
  }
  EXPECT_GE(skipped, 1);
  const std::string before = contents(file.path());
  EXPECT_EQ(run_driver(arguments).status, 0);
  EXPECT_EQ(contents(file.path()), before);
}

TEST(LongSequenceDriver, OnlyKnobsOfTheRowsOwnAttentionTellItsResultsApart) {
  const Folder folder;
  std::ofstream(folder / "three.cfg") << "d_model = 16\nn_heads = 2\nlsh_chunk = 4\nrow = full\n"
                                         "row = lsh: attention=lsh\n"
                                         "row = window: attention=window\n";
  const std::string arguments = "--config '" + folder.path() + "/three.cfg' --results '" +
                                folder.path() + "' --threads 1 --quick --repeats 2 --lengths 16 ";
  ASSERT_EQ(run_driver(arguments).status, 0);
  const Outcome chunk = run_driver(arguments + "--lsh_chunk 8");
  expect_mentions(chunk.text, {"1 measurements", "full_l16: 1 thread already measured",
                               "window_l16: 1 thread already measured"});
  const Outcome width = run_driver(arguments + "--window_width 3");
  expect_mentions(width.text, {"1 measurements", "full_l16: 1 thread already measured",
                               "lsh_l16: 1 thread already measured"});

  // Records of before other attentions had knobs.
  const std::string path = folder / "three.jsonl";
  const std::string all = contents(path);
  const std::string before = std::regex_replace(
      all, std::regex(R"re("(window_width|normaliser|entmax_alpha)":("\w+"|[0-9.]+),)re"), "");
  ASSERT_LT(before.size(), all.size());
  std::ofstream(path) << before;
  expect_mentions(run_driver(arguments + "--rows full,lsh").text, {"0 measurements"});
}

/// Every attention of the catalog is a row of the config, and `pairs` says who has a graph.
TEST(LongSequenceDriver, EveryAttentionHasItsRowAndCountsItsPairs) {
  const Folder folder;
  const Outcome outcome = run_driver(
      "--config '" + std::string(SOURCE_DIR) +
      "/experiments/configs/attention/attention_lengths.cfg' --results '" + folder.path() +
      "' --threads 1 --quick --repeats 1 --d_model 16 --n_heads 2 --lsh_chunk 4 --lengths 16,24");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::map<std::string, std::map<std::string, double>> found;
  std::set<std::string> attentions, normalisers, with_pairs;
  const RecordFile file(folder.path(), "attention_lengths");
  for (const Record& r : file.records()) {
    EXPECT_EQ(r.status, Status::ok) << r.row << " " << r.metric << ": " << r.note;
    found[r.row][r.metric] = r.value;
    const auto attention = r.config.at("attention").get<std::string>();
    attentions.insert(attention);
    if (r.metric == "pairs") with_pairs.insert(attention);
    normalisers.insert(r.config.at("normaliser").get<std::string>());
  }
  const double heads = 2, d_head = 8;
  for (const auto& entry : entries_of("attention")) {
    EXPECT_TRUE(attentions.count(entry.name)) << entry.name << " has no row";
    EXPECT_EQ(with_pairs.count(entry.name) > 0, entry.traits.has_graph) << entry.name;
  }
  for (const char* normaliser : {"softmax", "sparsemax", "entmax15"}) {
    EXPECT_TRUE(normalisers.count(normaliser)) << normaliser;
  }
  for (const double n : {16.0, 24.0}) {
    const std::string at = "_l" + std::to_string(int(n));
    EXPECT_EQ(found["full" + at]["pairs"], heads * n * (n + 1) / 2);
    EXPECT_EQ(found["full_two_sided" + at]["pairs"], heads * n * n);
    for (const char* row : {"full", "full_entmax15", "window", "strided", "full_two_sided"}) {
      auto& numbers = found[row + at];
      EXPECT_EQ(numbers["step_flops"], 12 * d_head * numbers["pairs"]) << row;
      EXPECT_EQ(numbers["forward_flops"], 4 * d_head * numbers["pairs"]) << row;
    }
  }
}

/// What is trained is what is timed: rows of the same names and knobs, one of which projects its
/// input by itself.
TEST(LongSequenceDriver, AttentionsOfKnownLogPerplexityAreTimedAsTrained) {
  const std::string configs = std::string(SOURCE_DIR) + "/experiments/configs/";
  const auto rows_of = [&configs](const std::string& name) {
    std::istringstream lines(contents(configs + name));
    std::vector<std::string> rows;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("row = ")) rows.push_back(line);
    }
    return rows;
  };
  const auto trained = rows_of("training/attention_quality.cfg");
  EXPECT_GT(trained.size(), 1u);
  EXPECT_EQ(rows_of("attention/attention_quality_steps.cfg"), trained);
  EXPECT_EQ(rows_of("attention/attention_quality_decode.cfg"), trained);

  const Folder folder;
  const Outcome outcome =
      run_driver("--config '" + configs + "attention/attention_quality_steps.cfg' --results '" +
                 folder.path() + "' --threads 1 --quick --repeats 1 --lengths 64");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  std::set<std::string> timed;
  const RecordFile file(folder.path(), "attention_quality_steps");
  for (const Record& r : file.records()) {
    EXPECT_EQ(r.status, Status::ok) << r.row << " " << r.metric << ": " << r.note;
    if (r.metric == "step_ms") timed.insert(r.row);
  }
  EXPECT_EQ(timed.size(), trained.size());
}

TEST(LongSequenceDriver, WhatCannotBeCausalIsRefusedByName) {
  const Outcome outcome = run_driver("--config '" + std::string(SOURCE_DIR) +
                                     "/experiments/configs/attention/attention_lengths.cfg' "
                                     "--dry-run --causal true --results /proc/none");
  EXPECT_EQ(outcome.status, 2) << outcome.text;
  expect_mentions(outcome.text, {"row 'linformer'", "attention linformer", "causal=false"});
}

TEST(LongSequenceDriver, DryRunRecordsNothing) {
  const Outcome dry = run_driver("--config '" + kConfig + "' --dry-run --results /proc/none");
  EXPECT_EQ(dry.status, 0) << dry.text;
  expect_mentions(dry.text, {"512", "65536", "about"});
}

TEST(LongSequenceDriver, MistakesExitWithTwoAndASentence) {
  const std::string config = "--config '" + kConfig + "' ";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--wings", "known are"},
      {"", "--config"},
      {config + "--lengths 512,many", "'many'"},
      {config + "--lengths 1", "at least 2"},
      {config + "--lengths -5", "'-5'"},
      {config + "--lengths ''", "--lengths is empty"},
      {config + "--threads 1,2", "one number"},
      {config + "--repeats 0", "at least one repeat"},
      {config + "--rows nobody", "known are: full, lsh"},
      {config + "--n_heads 7", "n_heads"},
      {config + "--results /proc/none", "cannot be written"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = run_driver(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
  }
}

// -- its parts ------------------------------------------------------------------------------------

TEST(Counts, AreAscendingAndEachOnce) {
  EXPECT_EQ(parse_counts("lengths", "8,2,8,512"), (std::vector<std::int64_t>{2, 8, 512}));
  expect_mentions(message_of([] { parse_counts("lengths", "8,x"); }), {"--lengths", "'x'"});
  expect_mentions(message_of([] { parse_counts("lengths", "12345678901"); }), {"12345678901"});
}

CoreRow row_of(const std::string& attention, const Settings& knobs = {}, bool causal = true) {
  CoreRow row;
  set_field(row.model, "d_model", "16");
  set_field(row.model, "n_heads", "2");
  set_field(row.model, "attention", attention);
  set_field(row.model, "lsh_chunk", "4");
  set_field(row.model, "lsh_rounds", "1");
  for (const auto& [knob, value] : knobs) set_field(row.model, knob, value);
  row.causal = causal;
  return row;
}

TEST(CoreCosts, CountPairsThatMaySeeEachOther) {
  const double length = 24, d_head = 8;
  const CoreCosts costs = measure_cores({row_of("full"), row_of("lsh")}, {24, 1, 2, 10, 64});
  const double pairs = 2 * length * (length + 1) / 2;
  EXPECT_EQ(costs.rows[0].forward.flops, 4 * pairs * d_head);
  EXPECT_EQ(costs.rows[0].step.flops, 12 * pairs * d_head);
  // The keys of two chunks that stand before the query; hashing into 12 buckets of 6 directions.
  const double hashing = 2 * length * 16 * 6;
  EXPECT_LT(costs.rows[1].step.flops, hashing + 12 * 2 * length * 8 * d_head);
  EXPECT_GT(costs.rows[1].step.flops, hashing + 12 * 2 * length * d_head);
  EXPECT_EQ(costs.rows[1].step.flops - hashing, 3 * (costs.rows[1].forward.flops - hashing));
  for (const CoreCost& cost : costs.rows) {
    EXPECT_EQ(cost.step.seconds.size(), 2u);
    EXPECT_EQ(cost.forward.seconds.size(), 2u);
    EXPECT_TRUE(cost.warm);
  }
  const CoreCosts hurried = measure_cores({row_of("full")}, {24, 1, 2, 1e-12, 64});
  EXPECT_EQ(hurried.rows[0].step.seconds.size(), 1u);
  EXPECT_EQ(hurried.rows[0].forward.seconds.size(), 1u);
  EXPECT_FALSE(hurried.rows[0].warm);
  set_gemm_threads(1);
}

/// Every pair by the definitions in words, query by query and key by key.
TEST(CoreCosts, PairsAreThoseOfTheDefinitions) {
  using Sees = std::function<bool(std::int64_t query, std::int64_t key)>;
  struct Case {
    const char* attention;
    Settings knobs;
    Sees sees;  ///< of what the mask allows
  };
  const std::vector<Case> cases = {
      {"window", {{"window_width", "7"}}, [](auto i, auto j) { return std::abs(i - j) <= 3; }},
      {"longformer",
       {{"window_width", "5"}, {"longformer_global", "2"}},
       [](auto i, auto j) { return std::abs(i - j) <= 2 || i < 2 || j < 2; }},
      {"paragraph", {{"paragraph_length", "8"}}, [](auto i, auto j) { return i / 8 == j / 8; }},
      {"banded", {{"band_width", "4"}}, [](auto i, auto j) { return std::abs(i - j) < 4; }},
      {"strided",
       {{"attention_stride", "5"}},
       [](auto i, auto j) { return std::abs(i - j) <= 5 || (i - j) % 5 == 0; }},
      {"fixed", {{"attention_stride", "6"}, {"fixed_summary", "2"}}, [](auto i, auto j) {
         return i / 6 == j / 6 || j % 6 >= 4;
       }}};
  const std::int64_t length = 29;
  for (const Case& c : cases) {
    for (const bool causal : {true, false}) {
      double pairs = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        for (std::int64_t j = 0; j < length; ++j) pairs += (!causal || j <= i) && c.sees(i, j);
      }
      const CoreCosts costs =
          measure_cores({row_of(c.attention, c.knobs, causal)}, {length, 1, 1, 10, 64});
      EXPECT_EQ(costs.rows[0].pairs, 2 * pairs) << c.attention << ", causal " << causal;
    }
  }
  set_gemm_threads(1);
}

TEST(CoreCosts, ParametersAreTrainedToo) {
  const CoreCosts costs =
      measure_cores({row_of("linformer", {{"linformer_rank", "4"}, {"max_length", "24"}}, false)},
                    {24, 1, 2, 10, 64});
  // Sums of keys and of values, two products of each query with them; twice that in backward.
  EXPECT_EQ(costs.rows[0].forward.flops, 8.0 * 24 * 4 * 16);
  EXPECT_EQ(costs.rows[0].step.flops, 3 * costs.rows[0].forward.flops);
  EXPECT_EQ(costs.rows[0].pairs, 0);
  set_gemm_threads(1);
}

TEST(CoreCosts, TheShortestTakeTurnsAsFarAsTimeReaches) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(shortest_within({5, 1, 2}, 3), (Indices{1, 2}));
  EXPECT_EQ(shortest_within({5, 1, 2}, 8), (Indices{1, 2, 0}));
  EXPECT_EQ(shortest_within({5, 1, 2}, 0.5), Indices{});
  EXPECT_EQ(shortest_within({}, 1), Indices{});
}

/// Long enough for what the C library keeps between calls not to matter.
TEST(CoreCosts, AForwardKeepsItsOutputAndAStepMore) {
  if (heap_bytes() == 0) GTEST_SKIP() << "a sanitizer's heap, which the C library does not count";
  const std::int64_t length = 2048, d_model = 16;
  const CoreCosts costs = measure_cores({row_of("full"), row_of("lsh")}, {length, 1, 1, 10, 64});
  for (const CoreCost& cost : costs.rows) {
    EXPECT_GT(cost.forward.heap_bytes, double(length * d_model) * sizeof(float));
    EXPECT_GT(cost.step.heap_bytes, 1.02 * cost.forward.heap_bytes);
  }
  set_gemm_threads(1);
}

}  // namespace
}  // namespace scaling
