// The driver of the long-sequence experiment as a user meets it, at a size of seconds, and what it
// measures.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "experiments/attention/core_measure.h"
#include "experiments/instruments/memory.h"
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

ModelConfig model_of(const std::string& attention) {
  ModelConfig model;
  set_field(model, "d_model", "16");
  set_field(model, "n_heads", "2");
  set_field(model, "attention", attention);
  set_field(model, "lsh_chunk", "4");
  set_field(model, "lsh_rounds", "1");
  return model;
}

TEST(CoreCosts, CountPairsThatMaySeeEachOther) {
  const double length = 24, d_head = 8;
  const CoreCosts costs = measure_cores({model_of("full"), model_of("lsh")}, {24, 1, 2, 10, 64});
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
  const CoreCosts hurried = measure_cores({model_of("full")}, {24, 1, 2, 1e-12, 64});
  EXPECT_EQ(hurried.rows[0].step.seconds.size(), 1u);
  EXPECT_EQ(hurried.rows[0].forward.seconds.size(), 1u);
  EXPECT_FALSE(hurried.rows[0].warm);
  set_gemm_threads(1);
}

/// Long enough for what the C library keeps between calls not to matter.
TEST(CoreCosts, AForwardKeepsItsOutputAndAStepMore) {
  if (heap_bytes() == 0) GTEST_SKIP() << "a sanitizer's heap, which the C library does not count";
  const std::int64_t length = 2048, d_model = 16;
  const CoreCosts costs =
      measure_cores({model_of("full"), model_of("lsh")}, {length, 1, 1, 10, 64});
  for (const CoreCost& cost : costs.rows) {
    EXPECT_GT(cost.forward.heap_bytes, double(length * d_model) * sizeof(float));
    EXPECT_GT(cost.step.heap_bytes, 1.02 * cost.forward.heap_bytes);
  }
  set_gemm_threads(1);
}

}  // namespace
}  // namespace scaling
