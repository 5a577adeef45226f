// Smoke runs of the programs that measure the machine, single kernels and single layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "experiments/study/record.h"
#include "kernels/arena.h"
#include "kernels/ceilings.h"
#include "kernels/libraries.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

/// By row and metric, what a program has measured; fails where it has not.
std::map<std::string, std::map<std::string, double>> runs_in(const Folder& folder,
                                                             const std::string& experiment) {
  std::map<std::string, std::map<std::string, double>> runs;
  const RecordFile file(folder.path(), experiment);
  for (const Record& r : file.records()) {
    EXPECT_EQ(r.status, Status::ok) << r.row << ": " << r.note;
    runs[r.row][r.metric] = r.value;
  }
  return runs;
}

std::string into(const Folder& folder) {
  return " --benchmark_min_time=0.0001 --results '" + folder.path() + "'";
}

TEST(Ceilings, MeasuresTheRowsThatAreAskedFor) {
  const Folder folder;
  // The last is someone else's where there is one: fast under sanitizers too. A smaller product is
  // another row and another metric than that of 2048.
  const std::string product = std::string("gemm_") + libraries().back().name + "_1024";
  const std::string arguments = "--quick --threads 1,2 --results '" + folder.path() +
                                "' --rows fma,read_1MiB,barrier,load,load_apart," + product;
  const Outcome outcome = run_driver("ceilings", arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const RecordFile file(folder.path(), "ceilings");
  std::set<std::string> measured, expected;
  for (const Record& r : file.records()) {
    measured.insert(r.row + " " + r.metric + " " + std::to_string(r.threads));
    EXPECT_GT(r.value, 0) << r.row;
    EXPECT_TRUE(std::isfinite(r.value)) << r.row;
    EXPECT_EQ(r.status, Status::ok);
    expect_mentions(r.command, {"--rows " + r.row, "--threads " + std::to_string(r.threads)});
  }
  expected = {"load load_ns 1", "load_apart load_ns 1"};  // of one thread, whatever is asked for
  for (const char* threads : {" 1", " 2"}) {
    for (const std::string& row :
         {std::string("fma fma_gflops"), std::string("barrier barrier_us"),
          std::string("read_1MiB read_gbps"), product + " gemm_gflops_1024"}) {
      expected.insert(row + threads);
    }
  }
  EXPECT_EQ(measured, expected);

  const Outcome again = run_driver("ceilings", arguments);
  EXPECT_EQ(again.status, 0);
  expect_mentions(again.text, {"already measured; --force repeats"});
  EXPECT_EQ(RecordFile(folder.path(), "ceilings").records().size(), file.records().size());
}

TEST(Ceilings, LoadsGoOnceThroughALineOfEveryPage) {
  Arena arena(kLoadLines * kPageBytes);
  auto* const memory = static_cast<char*>(arena.take(kLoadLines * kPageBytes));
  EXPECT_GT(measure_load(memory, Lines::neighbours), 0);
  EXPECT_GT(measure_load(memory, Lines::apart), 0);
  std::set<std::uint64_t> pages;
  constexpr std::uint64_t kSets = 1024;  // of a cache of half a MiB or more
  std::vector<std::uint64_t> in_set(kSets);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < kLoadLines; ++i) {
    pages.insert(at / kPageBytes);
    ++in_set[at / 64 % kSets];
    std::memcpy(&at, memory + at, sizeof at);
    ASSERT_LT(at, kLoadLines * kPageBytes);
    ASSERT_EQ(at % 64, 0u);
  }
  EXPECT_EQ(at, 0u);
  EXPECT_EQ(pages.size(), kLoadLines);
  for (const std::uint64_t lines : in_set) EXPECT_EQ(lines, kLoadLines / kSets);
}

TEST(Ceilings, LinesOfMemoryInUseAreOneAPageFromItsBeginningToItsEnd) {
  constexpr std::uint64_t kStretch = 2 << 20, kSets = 1024, kPages = kStretch / kPageBytes;
  for (const std::uint64_t bytes : {kStretch, 3 * kStretch + 17, 1000 * kStretch + 4099}) {
    const std::vector<std::uint64_t> lines = lines_apart(bytes);
    EXPECT_EQ(lines.size(), std::min<std::uint64_t>(8, bytes / kStretch) * kPages);
    std::set<std::uint64_t> pages;
    std::map<std::uint64_t, std::uint64_t> in_set;
    for (const std::uint64_t line : lines) {
      EXPECT_EQ(line % 64, 0u);
      EXPECT_LE(line + 64, bytes);
      pages.insert(line / kPageBytes);
      ++in_set[line / 64 % kSets];
    }
    EXPECT_EQ(pages.size(), lines.size());
    EXPECT_EQ(*pages.begin(), 0u);
    EXPECT_GE((*pages.rbegin() + 2) * kPageBytes, bytes);
    for (const auto& [set, count] : in_set) EXPECT_EQ(count, 4u) << set;  // of eight ways or more
  }
  EXPECT_TRUE(lines_apart(kStretch - 1).empty());
  Arena arena(kStretch);
  const void* const memory = arena.take(kStretch);
  EXPECT_GT(measure_load_apart(memory, kStretch), 0);
  EXPECT_TRUE(std::isnan(measure_load_apart(memory, kStretch - 1)));
}

TEST(Ceilings, OnlyProductsOfRoundedActivationsGoByTheDotProduct) {
  Team team(1);
  EXPECT_EQ(measure_bf16_dot_rate(team) > 0, bf16_dot_kernels() != nullptr);
  for (const KernelSet* set : kernel_sets()) {
    EXPECT_FALSE(set->rounds(WeightType::f32)) << set->name;
    EXPECT_EQ(set->rounds(WeightType::bf16), set->name == "bf16_dot" || set->name == "onednn");
    EXPECT_GT(measure_product_rate(team, *set, WeightType::bf16), 0);
  }
}

TEST(Ceilings, MistakesExitWithTwoAndASentence) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--wings", "--rows"},
      {"--rows nobody", "gemm_eigen"},
      {"--quick --rows gemm_eigen", "gemm_eigen_1024"},
      {"--threads 0", "'0'"},
      {"--threads", "--help"},
      {"--results /proc/none", "cannot be written"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = run_driver("ceilings", arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    expect_mentions(outcome.text, {"error: ", words});
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
  const Outcome help = run_driver("ceilings", "--help");
  EXPECT_EQ(help.status, 0);
  expect_mentions(help.text, {"--rows", "--pin"});
}

TEST(BenchKernels, ChecksAndTimesWhatTheFilterNamesOnce) {
  const Folder folder;
  const std::string arguments =
      "--threads 2 --benchmark_filter='^multiplicative/800m.*/f32/1/|^softmax/'" + into(folder);
  const Outcome outcome = run_driver("bench_kernels", arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  int cold = 0;
  for (const auto& [row, run] : runs_in(folder, "kernels")) {
    EXPECT_GT(run.at("us"), 0) << row;
    EXPECT_GT(run.at("bytes/s"), 0) << row;
    cold += int(run.count("%ceiling"));
  }
  EXPECT_GE(cold, 2) << "ref and simd, beside the machine's limit";
  const std::string before = contents(folder / "kernels.jsonl");
  const Outcome again = run_driver("bench_kernels", arguments);
  EXPECT_EQ(again.status, 0);
  expect_mentions(again.text, {"already measured; --force repeats"});
  EXPECT_EQ(contents(folder / "kernels.jsonl"), before);
}

TEST(BenchKernels, EveryRepetitionIsOnRecord) {
  const Folder folder;
  const Outcome outcome = run_driver("bench_kernels",
                                     "--benchmark_filter='^softmax/.*/ref/' "
                                     "--benchmark_repetitions=3" +
                                         into(folder));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  int timed = 0;
  const RecordFile file(folder.path(), "kernels");
  for (const Record& r : file.records()) {
    if (r.metric != "us") continue;
    ++timed;
    EXPECT_EQ(r.samples["columns"].dump(), R"(["us"])");
    ASSERT_EQ(r.samples["rows"].size(), 3);
    std::vector<double> values;
    for (const auto& row : r.samples["rows"]) values.push_back(row[0]);
    EXPECT_DOUBLE_EQ(summarize(values).median, r.value);
  }
  EXPECT_GT(timed, 0);
}

TEST(BenchKernels, WhatHandsOverNoRepetitionIsNoTime) {
  const Folder folder;
  const Outcome outcome = run_driver("bench_kernels",
                                     "--benchmark_filter=^softmax/.*/simd/ "
                                     "--benchmark_min_time=0.0001 --benchmark_repetitions=2 "
                                     "--benchmark_report_aggregates_only=true" +
                                         into(folder));
  EXPECT_NE(outcome.status, 0) << outcome.text;
  expect_mentions(outcome.text, {"--benchmark_report_aggregates_only"});
  const RecordFile file(folder.path(), "kernels");
  for (const Record& r : file.records()) {
    EXPECT_EQ(r.status, Status::failed) << r.row;
  }
}

TEST(BenchKernels, MistakesExitWithTwo) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"--benchmark_filter=nothing", "filter"},
           {"--threads 1000000", "1000000"},
           {"--prefetch nobody", "four"},
           {"--benchmark_min_time=nan", "min_time"},
           {"--benchmark_min_time=-1s", "0 to 3600"},
           {"--benchmark_repetitions=0", "1 to 10000"},
           {"--benchmark_repetitions=x", "repetitions"},
           {"--wings", "--threads"}}) {
    const Outcome outcome = run_driver("bench_kernels", arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    expect_mentions(outcome.text, {"error: ", words});
  }
}

TEST(BenchLayers, ChecksAndTimesWhatTheFilterNames) {
  const Folder folder;
  const Outcome outcome =
      run_driver("bench_layers",
                 "--benchmark_filter='^attention:full/f32/t1|cross_attention:linformer/f32/t1|"
                 "loss:multiplicative/bf16/t1'" +
                     into(folder));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::set<std::string> timed;
  for (const auto& [row, run] : runs_in(folder, "layers")) {
    EXPECT_GT(run.at("us"), 0) << row;
    // A step without weights reads none, though the layer may have some, for what comes before.
    EXPECT_EQ(run.count("percent_of_ceiling") > 0, row.rfind("loss", 0) == 0) << row;
    timed.insert(row);
  }
  EXPECT_EQ(timed, (std::set<std::string>{"attention:full/f32/t1/real_time",
                                          "cross_attention:linformer/f32/t1/real_time",
                                          "loss:multiplicative/bf16/t1/real_time"}));
}

TEST(BenchLayers, MistakesExitWithTwoAndNameTheKnown) {
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"--shape=nobody", "tiny"}, {"--kernels=nobody", "simd"}, {"--wings", "--wings"}}) {
    const Outcome outcome = run_driver("bench_layers", arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    expect_mentions(outcome.text, {words});
  }
}

}  // namespace
}  // namespace scaling
