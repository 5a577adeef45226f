// The driver of attentions' decode steps at a size of seconds, and what a step is set beside.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/attention/decode_measure.h"
#include "experiments/instruments/cold_memory.h"
#include "experiments/study/record.h"
#include "models/layers/catalog.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

const std::string kConfig =
    std::string(SOURCE_DIR) + "/experiments/configs/attention/attention_decode.cfg";

std::string tiny(const Folder& folder) {
  return "--config '" + kConfig + "' --results '" + folder.path() +
         "' --threads 1 --quick --repeats 1 --sweep 1 --d_model 16 --n_heads 2 ";
}

TEST(AttentionDecodeDriver, EveryDecodeFormHasItsRowBesideItsFloor) {
  const Folder folder;
  const Outcome first = run_driver("attention_decode", tiny(folder) + "--contexts 300,20");
  ASSERT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"full_c20", "us a token"});
  const RecordFile file(folder.path(), "attention_decode");
  std::map<std::string, std::map<std::string, double>> found;
  std::set<std::string> attentions;
  for (const Record& r : file.records()) {
    found[r.row][r.metric] = r.value;
    EXPECT_TRUE(std::isfinite(r.value) && r.value >= 0) << r.row << " " << r.metric;
    attentions.insert(r.config.at("attention").get<std::string>());
  }
  for (const std::string& name : causal_implementations_of("attention")) {
    EXPECT_TRUE(attentions.count(name)) << name << " has no row";
  }
  // Keys and values of 16 numbers; the middle timed step is the fifth.
  EXPECT_EQ(found["full_c300"]["decode_bytes"], (300 + 5) * 2 * 16 * 4);
  EXPECT_EQ(found["full_c300"]["decode_flops"], (300 + 5) * 4 * 16);
  // Its 128 neighbours and itself, or all there are.
  EXPECT_EQ(found["window_c300"]["decode_bytes"], 129 * 2 * 16 * 4);
  EXPECT_EQ(found["window_c20"]["decode_bytes"], found["full_c20"]["decode_bytes"]);
  EXPECT_LT(found["window_c300"]["cache_bytes"], found["full_c300"]["cache_bytes"]);
  EXPECT_EQ(found["performer_c300"]["cache_bytes"], found["performer_c20"]["cache_bytes"]);

  const std::string before = contents(file.path());
  EXPECT_EQ(run_driver("attention_decode", tiny(folder) + "--contexts 300,20").status, 0);
  EXPECT_EQ(contents(file.path()), before);
}

TEST(AttentionDecodeDriver, MistakesExitWithTwoAndASentence) {
  const std::string config = "--config '" + kConfig + "' --dry-run --results /proc/none ";
  for (const auto& [arguments, words] :
       std::map<std::string, std::string>{{"--contexts 0", "at least 1"},
                                          {"--repeats 0", "at least one repeat"},
                                          {"--kernels nobody", "nobody"},
                                          {"--rows nobody", "known are: full"}}) {
    const Outcome outcome = run_driver("attention_decode", config + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << "\n" << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
  }
  const Folder folder;
  std::ofstream(folder / "sums.cfg")
      << "d_model = 16\nn_heads = 2\nrow = sums: attention=linformer\n";
  const Outcome outcome =
      run_driver("attention_decode",
                 "--config '" + folder.path() + "/sums.cfg' --dry-run --results /proc/none");
  EXPECT_EQ(outcome.status, 2) << outcome.text;
  expect_mentions(outcome.text, {"row 'sums'", "attention linformer"});
}

/// From an empty cache on all keys are alike, and so are all values: a mean of them is the value,
/// whatever the weights.
TEST(DecodeCore, AStepAttends) {
  Team team(2);
  const ColdMemory elsewhere(team, 1 << 20);
  for (const std::string attention : {"full", "window", "strided", "bigbird", "performer"}) {
    ModelConfig model;
    set_field(model, "d_model", "16");
    set_field(model, "n_heads", "2");
    set_field(model, "attention", attention);
    DecodeCore core(model, 0, find_kernel_set("ref"), team, elsewhere);
    const Trial trial = core.candidate(attention).trial(0);
    ASSERT_EQ(trial.values.size(), std::size_t(kColumns)) << attention;
    for (const double value : trial.values) EXPECT_GT(value, 0) << attention;
    ASSERT_EQ(core.output().size(), core.value().size());
    for (std::size_t i = 0; i < core.output().size(); ++i) {
      EXPECT_NEAR(core.output()[i], core.value()[i], 1e-4) << attention;
    }
  }
}

TEST(ColdMemory, CachesAreCountedOnce) {
  const Folder folder;
  const auto write = [&](const std::string& where, const std::string& level,
                         const std::string& size, const std::string& shared) {
    const auto index = std::filesystem::path(folder.path()) / where;
    std::filesystem::create_directories(index);
    for (const auto& [name, text] : {std::pair("level", level), std::pair("size", size),
                                     std::pair("shared_cpu_list", shared)}) {
      std::ofstream(index / name) << text << "\n";
    }
  };
  write("cpu0/cache/index2", "2", "512K", "0");
  write("cpu0/cache/index3", "3", "32768K", "0-1");
  write("cpu1/cache/index3", "3", "32768K", "0-1");
  write("cpu2/cache/index3", "3", "16M", "2");
  write("cpu3/cache/index3", "3", "unknown", "3");
  std::filesystem::create_directories(std::filesystem::path(folder.path()) / "cpufreq");
  EXPECT_EQ(last_level_caches(folder.path()), (std::vector<std::uint64_t>{32 << 20, 16 << 20}));
  EXPECT_TRUE(last_level_caches(folder.path() + "/none").empty());
}

TEST(ColdMemory, IsMoreThanCachesHold) {
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_GT(more_than_caches_hold(1), kMiB);
  EXPECT_EQ(more_than_caches_hold(16, {}), 1024 * kMiB) << "nothing is told";
  EXPECT_EQ(more_than_caches_hold(2, {32 * kMiB}), 128 * kMiB) << "both threads share it";
  EXPECT_EQ(more_than_caches_hold(8, {16 * kMiB, 32 * kMiB}), 256 * kMiB) << "a half for each";
  EXPECT_EQ(more_than_caches_hold(1, {16 * kMiB, 32 * kMiB}), 128 * kMiB);
  Team team(1);
  EXPECT_GT(ColdMemory(team, 1 << 16).sweep(), 0);
  expect_mentions(message_of([&] { ColdMemory(team, std::uint64_t(1) << 60); }),
                  {"memory that is read between cold steps"});
}

}  // namespace
}  // namespace scaling
