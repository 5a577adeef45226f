// The driver of the long-sequence experiment as a user meets it, at a size of seconds, and its
// recall against a brute-force count.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "experiments/attention/attention_recall.h"
#include "experiments/attention/long_sequence_measure.h"
#include "experiments/attention/long_sequence_plan.h"
#include "experiments/instruments/heap.h"
#include "experiments/study/counts.h"
#include "experiments/study/record.h"
#include "kernels/gemm.h"
#include "tests/experiments/driver_run.h"
#include "tests/experiments/harness_helpers.h"

namespace scaling {
namespace {

const std::string kConfig =
    std::string(SOURCE_DIR) + "/experiments/configs/attention/long_sequence.cfg";

Outcome run_driver(const std::string& arguments) {
  return scaling::run_driver("long_sequence", arguments);
}

std::string tiny(const Folder& folder) {
  return "--config '" + kConfig + "' --results '" + folder.path() +
         "' --threads 1 --quick --repeats 2 --d_model 16 --n_heads 2 --lsh_chunk 4 "
         "--recall-length 48 --recall-chunks 4,8 --recall-rounds 1,3 ";
}

// -- the driver -----------------------------------------------------------------------------------

TEST(LongSequenceDriver, MeasuresRecordsAndRepeatsNothing) {
  const Folder folder;
  const Outcome first = run_driver(tiny(folder) + "--lengths 16,33");
  ASSERT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"length 16", "full", "ms a step", "recall, clustered"});
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
  for (const std::string distribution : {"random", "clustered"}) {
    for (const char* setting : {"_c4_r1", "_c4_r3", "_c8_r1", "_c8_r3"}) {
      EXPECT_TRUE(metrics[distribution + setting].count("recall")) << distribution << setting;
      EXPECT_TRUE(metrics[distribution + setting].count("density")) << distribution << setting;
    }
  }

  const std::string before = contents(file.path());
  const Outcome again = run_driver(tiny(folder) + "--lengths 16,33");
  EXPECT_EQ(again.status, 0) << again.text;
  expect_mentions(again.text, {"full already measured", "lsh already measured", "random: already"});
  EXPECT_EQ(contents(file.path()), before);

  // One more length is all that is added.
  EXPECT_EQ(run_driver(tiny(folder) + "--lengths 16,33,40").status, 0);
  const std::string more = contents(file.path()).substr(before.size());
  EXPECT_NE(more.find("full_l40"), std::string::npos);
  EXPECT_EQ(more.find("_l33"), std::string::npos);
  EXPECT_EQ(more.find("recall"), std::string::npos);
}

TEST(LongSequenceDriver, WhatWouldTakeTooLongIsSkippedOnceWithTheReason) {
  const Folder folder;
  const std::string arguments = tiny(folder) + "--lengths 16,4000 --step-limit 1e-4";
  const Outcome first = run_driver(arguments);
  EXPECT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"length 4000", "full skipped, a training step would take about"});
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
      {config + "--recall-rounds 0", "at least 1"},
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

Row row_of(const std::string& attention) {
  Row row;
  row.name = attention;
  row.model.d_model = 16;
  row.model.n_heads = 2;
  row.model.attention = attention;
  row.model.lsh_chunk = 4;
  row.model.lsh_rounds = 1;
  return row;
}

TEST(CoreCosts, CountPairsThatMaySeeEachOther) {
  const double length = 24, d_head = 8;
  const CoreCosts costs = measure_cores({row_of("full"), row_of("lsh")}, {24, 1, 2, 10, 64});
  const double pairs = 2 * length * (length + 1) / 2;
  EXPECT_EQ(costs.rows[0].forward_flops, 4 * pairs * d_head);
  EXPECT_EQ(costs.rows[0].step_flops, 12 * pairs * d_head);
  // Of the keys of two chunks, those before the query; hashing into 12 buckets of 6 directions.
  const double hashing = 2 * length * 16 * 6;
  EXPECT_LT(costs.rows[1].step_flops, hashing + 12 * 2 * length * 8 * d_head);
  EXPECT_GT(costs.rows[1].step_flops, hashing + 12 * 2 * length * d_head);
  EXPECT_EQ(costs.rows[1].step_flops - hashing, 3 * (costs.rows[1].forward_flops - hashing));
  for (const CoreCost& cost : costs.rows) {
    EXPECT_EQ(cost.step_seconds.size(), 2u);
    EXPECT_EQ(cost.forward_seconds.size(), 2u);
    EXPECT_TRUE(cost.warm);
  }
  const CoreCosts hurried = measure_cores({row_of("full")}, {24, 1, 2, 1e-12, 64});
  EXPECT_EQ(hurried.rows[0].step_seconds.size(), 1u);
  EXPECT_EQ(hurried.rows[0].forward_seconds.size(), 1u);
  EXPECT_FALSE(hurried.rows[0].warm);
  set_gemm_threads(1);
}

/// Long enough for what the C library keeps between calls not to matter.
TEST(CoreCosts, AForwardKeepsItsOutputAndAStepMore) {
  if (heap_bytes() == 0) GTEST_SKIP() << "a sanitizer's heap, which the C library does not count";
  const std::int64_t length = 2048, d_model = 16;
  const CoreCosts costs = measure_cores({row_of("full"), row_of("lsh")}, {length, 1, 1, 10, 64});
  for (const CoreCost& cost : costs.rows) {
    EXPECT_GT(cost.forward_heap_bytes, double(length * d_model) * sizeof(float));
    EXPECT_GT(cost.heap_bytes, 1.02 * cost.forward_heap_bytes);
  }
  set_gemm_threads(1);
}

ModelConfig setting(std::int64_t chunk, std::int64_t rounds) {
  ModelConfig model = row_of("lsh").model;
  model.lsh_chunk = chunk;
  model.lsh_rounds = rounds;
  return model;
}

TEST(AttentionRecall, IsOneWhereEverythingIsInView) {
  const auto found = measure_recall("random", 40, {setting(40, 1), setting(80, 2)}, 1);
  for (const Recall& r : found) {
    ASSERT_EQ(r.recall.size(), 2u);
    for (const double value : r.recall) EXPECT_NEAR(value, 1, 1e-5);
    for (const double value : r.density) EXPECT_EQ(value, 1);
  }
}

TEST(AttentionRecall, GrowsWithRoundsAndBeatsChanceOnClusters) {
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / double(values.size());
  };
  ModelConfig wide = setting(32, 1);
  wide.d_model = 128;
  ModelConfig often = wide;
  often.lsh_rounds = 4;
  for (const char* distribution : kDistributions) {
    const auto found = measure_recall(distribution, 512, {wide, often}, 1);
    EXPECT_GT(mean(found[1].recall), mean(found[0].recall)) << distribution;
    EXPECT_GT(mean(found[1].density), mean(found[0].density)) << distribution;
    EXPECT_GT(mean(found[0].recall), mean(found[0].density)) << distribution;
  }
  const auto clustered = measure_recall("clustered", 512, {often}, 1);
  EXPECT_GT(mean(clustered[0].recall), 2 * mean(clustered[0].density));
  expect_mentions(message_of([&] { measure_recall("fractal", 8, {wide}, 1); }),
                  {"'fractal'", "random, clustered"});
}

}  // namespace
}  // namespace scaling
