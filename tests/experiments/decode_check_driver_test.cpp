// Trained models decode what they were trained to: every component, through the driver.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "experiments/study/record.h"
#include "experiments/training/curves.h"
#include "kernels/kernels.h"
#include "models/layers/catalog.h"
#include "tests/experiments/driver_run.h"
#include "tests/experiments/harness_helpers.h"

namespace scaling {
namespace {

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
