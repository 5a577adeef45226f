// Trained models decode what they were trained to: every component, through the driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "experiments/instruments/selection_trace.h"
#include "experiments/study/record.h"
#include "experiments/training/curves.h"
#include "kernels/kernels.h"
#include "models/layers/catalog.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

const std::string kConfigs = std::string(SOURCE_DIR) + "/experiments/configs/training/";

/// metric -> value, by row.
using Rows = std::map<std::string, std::map<std::string, double>>;

std::string flags(const std::string& config, const Folder& folder, int threads) {
  return "--config '" + kConfigs + config + ".cfg' --gemm eigen --threads " +
         std::to_string(threads) + " --results '" + folder.path() + "' ";
}

Rows rows_of(const Folder& folder) {
  Rows rows;
  const RecordFile file(folder.path(), "tiny_decode");
  for (const Record& r : file.records()) rows[r.row][r.metric] = r.value;
  return rows;
}

std::vector<Curve> all_curves() {
  return curves_of(read_row_file(kConfigs + "tiny_decode.cfg", curve_knobs(), {}));
}

std::vector<std::string> all_rows() {
  std::vector<std::string> names;
  for (const Curve& curve : all_curves()) names.push_back(curve.name);
  return names;
}

const Curve& curve_of(const std::string& row) {
  static const std::vector<Curve> curves = all_curves();
  return *std::find_if(curves.begin(), curves.end(), [&](const auto& c) { return c.name == row; });
}

TEST(DecodeCheck, TheConfigHasEveryComponentWhoseStepIsItsForward) {
  const std::vector<Curve> curves = all_curves();
  for (const std::string& component : component_names()) {
    for (const EntryInfo& entry : entries_of(component)) {
      if (entry.traits.step != StepIs::exact) continue;
      EXPECT_TRUE(std::any_of(
          curves.begin(), curves.end(),
          [&](const Curve& curve) { return get_field(curve.model, component) == entry.name; }))
          << component << " " << entry.name;
    }
  }
}

/// A test a row, and under a sanitizer, which makes each step twenty times as long, fewer steps
/// than it takes to learn: there it is memory that is looked at.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kTrained = false;
#else
constexpr bool kTrained = true;
#endif

class DecodeCheckOfRow : public testing::TestWithParam<std::string> {};

TEST_P(DecodeCheckOfRow, DecodesAsItIsEvaluated) {
  const Folder folder;
  const Outcome outcome = run_driver(
      "perplexity", flags("tiny_decode", folder, 1) + "--rows " + GetParam() +
                        (kTrained ? "" : " --steps 20") + " --decode_check --decode_tokens 0");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_mentions(outcome.text, {GetParam() + ", seed 1: log-perplexity", ", decoded "});
  const auto metrics = rows_of(folder).at(GetParam());
  const double reference = metrics.at("decode_reference_log_perplexity");
  // All of the held-out text, by weights that have learnt something of it.
  EXPECT_NEAR(reference, metrics.at("log_perplexity"), 1e-9);
  if (kTrained) {
    EXPECT_LT(reference, metrics.at("unigram_entropy") - 0.1);
  }
  EXPECT_NEAR(metrics.at("decode_log_perplexity.f32"), reference, 1e-4);
  // What the blocks chose on the way: of rows that choose, where targets need no padding.
  const bool chooses = metrics.count("selection_chance") == 1;
  const Curve& curve = curve_of(GetParam());
  const std::string feed_forward = get_field(curve.model, "feed_forward");
  EXPECT_EQ(chooses, (feed_forward == "sparse" || feed_forward.starts_with("moe")) &&
                         curve.train.task == "causal");
  const std::string trace_file = folder / ("traces/tiny_decode/" + GetParam() + ".1.npy");
  EXPECT_EQ(fs::exists(trace_file), chooses);
  if (chooses) {
    EXPECT_GE(metrics.at("selection_chance"), 0.25 - 1e-9);  // of four options
    const SelectionTrace trace = read_trace(trace_file, 4);
    EXPECT_EQ(trace.positions, 32);
    EXPECT_EQ(trace.blocks, 2);
    const std::int64_t held = kMostTraceBytes / (trace.size() / trace.examples);
    EXPECT_EQ(trace.examples, std::min(held, std::int64_t(metrics.at("decode_tokens")) / 32));
  }
  const double bf16 = metrics.at("decode_log_perplexity.bf16");
  EXPECT_NEAR(bf16, reference, 0.02);
  EXPECT_NE(bf16, metrics.at("decode_log_perplexity.f32"));
  ASSERT_EQ(metrics.count("decode_log_perplexity.bf16_dot"), bf16_dot_kernels() ? 1u : 0u);
  if (!bf16_dot_kernels()) return;
  EXPECT_NEAR(metrics.at("decode_log_perplexity.bf16_dot"), reference, 0.02);
  EXPECT_NE(metrics.at("decode_log_perplexity.bf16_dot"), bf16);
}

INSTANTIATE_TEST_SUITE_P(All, DecodeCheckOfRow, testing::ValuesIn(all_rows()),
                         [](const auto& row) { return row.param; });

/// Numbers of 8 digits fill their 8 positions, those of the next batch have 12 of 16.
TEST(DecodeCheck, ATraceHoldsExamplesOfOneLength) {
  const Folder folder;
  const Outcome outcome = run_driver(
      "perplexity", flags("tiny_decode", folder, 1) +
                        "--rows ff_sparse --task copy_pairs --encoder_layers 1 --steps 4 "
                        "--digits_max 12 --eval_digits_min 8 --eval_digits_max 12 "
                        "--max_length 64 --decode_check --decode_tokens 0");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const SelectionTrace trace = read_trace(folder / "traces/tiny_decode/ff_sparse.1.npy", 4);
  EXPECT_EQ(trace.positions, 8);
  EXPECT_GT(trace.examples, 0);
}

TEST(DecodeCheck, TakesTheFirstTokensInWholeExamples) {
  const Folder folder;
  const std::string command = flags("tiny_decode", folder, 2) + "--rows dense --steps 4 ";
  ASSERT_EQ(run_driver("perplexity", command).status, 0);
  EXPECT_EQ(rows_of(folder).at("dense").count("decode_log_perplexity.f32"), 0u);
  const Outcome outcome =
      run_driver("perplexity", command + "--force --decode_check --decode_tokens 40");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto metrics = rows_of(folder).at("dense");
  EXPECT_EQ(metrics.at("decode_tokens"), 64);
  EXPECT_NEAR(metrics.at("decode_log_perplexity.f32"),
              metrics.at("decode_reference_log_perplexity"), 1e-4);
}

TEST(DecodeCheck, AFinishedCurveIsCheckedFromItsCheckpoint) {
  const Folder folder;
  const std::string command = flags("tiny_decode", folder, 1) + "--rows dense --steps 4 ";
  ASSERT_EQ(run_driver("perplexity", command).status, 0);
  const double before = rows_of(folder).at("dense").at("log_perplexity");
  const std::string with_check = command + "--decode_check --decode_tokens 40";
  const Outcome checked = run_driver("perplexity", with_check);
  ASSERT_EQ(checked.status, 0) << checked.text;
  expect_mentions(checked.text, {"continues after step 4", ", decoded "});
  const auto metrics = rows_of(folder).at("dense");
  EXPECT_EQ(metrics.at("log_perplexity"), before);
  EXPECT_NEAR(metrics.at("decode_log_perplexity.f32"),
              metrics.at("decode_reference_log_perplexity"), 1e-4);
  const std::size_t records = RecordFile(folder.path(), "tiny_decode").records().size();
  for (const std::string& again : {with_check, command}) {
    ASSERT_EQ(run_driver("perplexity", again).status, 0);
    EXPECT_EQ(RecordFile(folder.path(), "tiny_decode").records().size(), records);
  }
}

/// Neither the curve nor what only its own process knows is lost with its check.
TEST(DecodeCheck, ACurveOutlivesACheckThatFails) {
  const Folder folder;
  std::ofstream(folder / "traces") << "no folder";
  const std::string command =
      flags("tiny_decode", folder, 1) + "--rows ff_sparse --steps 4 --decode_check";
  const Outcome failed = run_driver("perplexity", command);
  EXPECT_NE(failed.status, 0);
  expect_mentions(failed.text, {"ff_sparse, seed 1: decode path not checked: ", "traces"});
  const auto trained = rows_of(folder).at("ff_sparse");
  EXPECT_EQ(trained.count("decode_log_perplexity.f32"), 0u);
  EXPECT_GT(trained.at("tokens_per_s"), 0);
  fs::remove(folder / "traces");
  const Outcome checked = run_driver("perplexity", command);
  ASSERT_EQ(checked.status, 0) << checked.text;
  const auto metrics = rows_of(folder).at("ff_sparse");
  EXPECT_EQ(metrics.count("decode_log_perplexity.f32"), 1u);
  for (const char* kept : {"log_perplexity", "tokens_per_s", "peak_memory_bytes"}) {
    EXPECT_EQ(metrics.at(kept), trained.at(kept)) << kept;
  }
}

/// A wider model decodes with what a trained one chose, and refuses what it cannot choose.
TEST(DecodeCheck, WhatATrainedModelChoseIsReplayed) {
  const Folder folder;
  const Outcome trained = run_driver(
      "perplexity", flags("tiny_decode", folder, 1) + "--rows ff_sparse --steps 4 --decode_check");
  ASSERT_EQ(trained.status, 0) << trained.text;
  const std::string trace = folder / "traces/tiny_decode/ff_sparse.1.npy";
  const auto config = [&](const std::string& rows) {
    std::ofstream(folder / "wide.cfg")
        << "experiment = wide\nencoder_layers = 0\ndecoder_layers = 3\nd_model = 64\nd_ff = 512\n"
        << "n_heads = 4\nvocab_size = 100\nmax_length = 64\nfeed_forward = sparse\n"
        << rows;
    return "--config '" + (folder / "wide.cfg") + "' --quick --threads 1 --results '" +
           folder.path() + "'";
  };
  const Outcome wide = run_driver(
      "decode_time",
      config("row = own: sparsity=4\nrow = replayed: sparsity=4 replay=" + trace + "\n"));
  ASSERT_EQ(wide.status, 0) << wide.text;
  std::map<std::string, std::string> replayed;
  std::map<std::string, double> touched;
  const RecordFile file(folder.path(), "wide");
  for (const Record& r : file.records()) {
    if (r.metric != "rows_touched") continue;
    replayed[r.row] = r.config.value("replay", "");
    touched[r.row] = r.value;
  }
  EXPECT_EQ(replayed.at("own"), "");
  EXPECT_NE(replayed.at("replayed"), "");
  EXPECT_NE(touched.at("own"), touched.at("replayed"));
  const Outcome other =
      run_driver("decode_time", config("row = other: sparsity=16 replay=" + trace + "\n"));
  EXPECT_EQ(other.status, 2);
  expect_mentions(other.text, {"row 'other'", trace, "among 4", "among 16"});
  const Outcome dense =
      run_driver("decode_time", config("row = dense: feed_forward=dense replay=" + trace + "\n"));
  EXPECT_EQ(dense.status, 2);
  expect_mentions(dense.text, {"row 'dense'", "replay", "dense", "drop it"});
  const Outcome none =
      run_driver("decode_time", config("row = none: sparsity=4 replay=" + trace + "x\n"));
  EXPECT_EQ(none.status, 2);
  expect_mentions(none.text, {"row 'none'", trace + "x", "--decode_check"});
}

TEST(DecodeCheck, RefusesWhatCannotBeDecoded) {
  const Folder folder;
  const Outcome masked =
      run_driver("perplexity", flags("tiny_curve", folder, 1) + "--task masked --decode_check");
  EXPECT_EQ(masked.status, 2);
  expect_mentions(masked.text, {"row 'dense'", "masked", "both sides", "--rows"});
  const Outcome less = run_driver(
      "perplexity", flags("tiny_curve", folder, 1) + "--decode_check --decode_tokens=-1");
  EXPECT_EQ(less.status, 2);
  expect_mentions(less.text, {"decode_tokens -1", "at least 0"});
}

}  // namespace
}  // namespace scaling
