// The built driver as a user meets it: smoke runs, exit statuses, resuming after a kill.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "experiments/study/record.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

const std::string kDriver = std::string(BINARY_DIR) + "/experiments/decode_time";
const std::string kSmoke = std::string(SOURCE_DIR) + "/experiments/configs/decode/tiny_smoke.cfg";

// Metrics of a row at one thread count: 23, and three for each part of a Transformer.
constexpr std::size_t kMetrics = 23 + 3 * 6;
// Of the smoke config, at one thread and at two.
constexpr int kRows = 2 * 5;

Outcome decode_time(const std::string& arguments) { return run_driver("decode_time", arguments); }

std::string smoke(const Folder& folder) {
  return "--config '" + kSmoke + "' --quick --time-budget 0.05 --threads 1,2 --results '" +
         folder.path() + "'";
}

TEST(Driver, MeasuresRecordsAndResumes) {
  const Folder folder;
  const Outcome first = decode_time(smoke(folder));
  ASSERT_EQ(first.status, 0) << first.text;
  RecordFile file(folder.path(), "tiny_smoke");
  std::map<std::string, int> metrics;
  for (const Record& r : file.records()) {
    ++metrics[r.metric];
    EXPECT_NE(r.status, Status::failed);
    EXPECT_TRUE(std::isfinite(r.value)) << r.metric;
    EXPECT_FALSE(r.key.empty());
    if (r.row == "scaled" && r.metric == "block_ms" && r.status != Status::untrusted) {
      EXPECT_EQ(r.status, Status::scaled_down);
    }
    if (r.row == "scaled" && r.metric == "token_ms" && r.status != Status::untrusted) {
      EXPECT_EQ(r.status, Status::extrapolated);
    }
    if (r.row == "baseline" && r.metric == "rows_touched") {
      EXPECT_EQ(r.value, 128);
    }
    if (r.row == "sparse" && r.metric == "rows_touched") {
      EXPECT_GE(r.value, 16);
      EXPECT_LE(r.value, 128);
    }
    if (r.metric == "part.feed_forward.ms") {
      EXPECT_GT(r.value, 0);
    }
  }
  EXPECT_EQ(metrics.size(), kMetrics);
  for (const auto& [metric, count] : metrics) EXPECT_EQ(count, kRows) << metric;

  const std::string before = contents(file.path());
  const Outcome again = decode_time(smoke(folder));
  EXPECT_EQ(again.status, 0);
  expect_mentions(again.text, {"already measured; --force repeats"});
  EXPECT_EQ(contents(file.path()), before);

  const Outcome forced = decode_time(smoke(folder) + " --rows baseline --force");
  EXPECT_EQ(forced.status, 0);
  EXPECT_EQ(RecordFile(folder.path(), "tiny_smoke").records().size(),
            file.records().size() + 2 * kMetrics);
}

TEST(Driver, WhatAModelHasOtherwiseIsSaidInItsRecordsAndMakesNoOther) {
  const Folder folder;
  const std::string arguments = smoke(folder) + " --rows baseline";
  ASSERT_EQ(decode_time(arguments + " --differs gelu,post_norm").status, 0);
  const RecordFile file(folder.path(), "tiny_smoke");
  ASSERT_FALSE(file.records().empty());
  for (const Record& r : file.records()) {
    expect_mentions(r.note, {"differs from the published model: gelu, post norm"});
  }
  expect_mentions(decode_time(arguments).text, {"0 measurements"});
}

/// What a reader needs to make every median again, and to tell in which state the machine was.
TEST(Driver, ClosingRecordsHoldTheirDecodes) {
  const Folder folder;
  // The one test with a cold row: it reads four times the last-level cache before every token,
  // which are gigabytes on a large machine.
  std::ofstream(folder / "closing.cfg") << "shape = tiny\nrow = baseline\nrow = sparse: "
                                           "feed_forward=sparse\nrow = cold: cold=true\n";
  const Outcome run =
      decode_time("--config '" + (folder / "closing.cfg") +
                  "' --time-budget 0.05 --threads 1 --results '" + folder.path() + "'");
  ASSERT_EQ(run.status, 0) << run.text;
  std::set<std::string> closed;
  std::map<std::pair<std::string, std::string>, double> recorded;
  const RecordFile file(folder.path(), "closing");
  for (const Record& r : file.records()) {
    recorded[{r.row, r.metric}] = r.value;
    EXPECT_EQ(r.samples.is_null(), r.metric != "token_ms");
    if (r.samples.is_null()) continue;
    closed.insert(r.row);
    const std::vector<std::string> columns = r.samples.at("columns");
    const auto column = [&](const std::string& name) {
      const auto at = std::find(columns.begin(), columns.end(), name) - columns.begin();
      std::vector<double> values;
      for (const auto& row : r.samples.at("rows")) {
        EXPECT_EQ(row.size(), columns.size());
        if (row.at(2) == 1) values.push_back(row.at(std::size_t(at)));
      }
      return values;
    };
    EXPECT_EQ(columns.at(2), "kept");
    const std::vector<double> times = column("token_ms");
    EXPECT_EQ(int(times.size()), r.repeats);
    EXPECT_NEAR(quantile(times, 0.5), r.value, 1e-5 * r.value);
    std::vector<double> shares;
    const std::vector<double> floors = column("token_floor_ms");
    for (std::size_t i = 0; i < times.size(); ++i) shares.push_back(floors[i] / times[i]);
    EXPECT_NEAR(quantile(shares, 0.5), recorded.at({r.row, "token_efficiency"}), 1e-4);
    for (const double rate : column("state_read_gbps")) EXPECT_GT(rate, 0.05);
    for (const double time : column("barrier_us")) EXPECT_GT(time, 0);
    const std::vector<double> rounds = column("round"), began = column("at_s");
    EXPECT_TRUE(std::is_sorted(rounds.begin(), rounds.end()));
    EXPECT_TRUE(std::is_sorted(began.begin(), began.end()));
  }
  EXPECT_EQ(closed, (std::set<std::string>{"baseline", "cold", "sparse"}));
}

/// An overlapping program is bound by the larger of its sums, one phase after another by the sum
/// of the larger.
TEST(Driver, OverlapIsBoundBelowPhases) {
  const Folder folder;
  ASSERT_EQ(decode_time(smoke(folder) + " --rows sparse").status, 0);
  std::map<std::string, double> values;
  const RecordFile file(folder.path(), "tiny_smoke");
  for (const Record& r : file.records()) values[r.metric] = r.value;
  for (const std::string kind : {"block_", "token_"}) {
    EXPECT_GT(values.at(kind + "overlap_floor_ms"), 0);
    EXPECT_LE(values.at(kind + "overlap_floor_ms"), values.at(kind + "floor_ms") * 1.0001);
    EXPECT_LE(values.at(kind + "overlap_efficiency"), values.at(kind + "efficiency") * 1.0001);
  }
}

/// Records that say nothing of their study and of the code's parts count by their commit.
TEST(Driver, RecordsOfAnAcceptedCommitCount) {
  const Folder folder;
  const std::string arguments = smoke(folder) + " --rows baseline";
  ASSERT_EQ(decode_time(arguments).status, 0);
  const std::string path = folder / "tiny_smoke.jsonl";
  std::string older;
  const RecordFile measured(folder.path(), "tiny_smoke");
  for (Record r : measured.records()) {
    r.study = r.title = r.sources = "";
    r.key = "another recipe's";
    r.provenance.commit = "0123456789ab";
    r.provenance.dirty = false;
    older += to_line(r) + "\n";
  }
  std::ofstream(path) << older;
  expect_mentions(decode_time(arguments + " --accept 0123456").text, {"already measured"});
  EXPECT_EQ(contents(path), older);
  EXPECT_EQ(decode_time(arguments).status, 0);
  EXPECT_EQ(RecordFile(folder.path(), "tiny_smoke").records().size(), 4 * kMetrics);
  // A time of another machine never counts.
  std::string elsewhere;
  for (Record r : measured.records()) {
    r.provenance.commit = "0123456789ab";
    r.provenance.dirty = false;
    r.provenance.cpu = "another";
    elsewhere += to_line(r) + "\n";
  }
  std::ofstream(path) << elsewhere;
  const Outcome again = decode_time(arguments + " --accept 0123456");
  EXPECT_EQ(again.text.find("already measured"), std::string::npos) << again.text;
}

TEST(Driver, BlocksMayBeAutoAsAFlagAndInAConfig) {
  const Folder folder;
  std::ofstream(folder / "auto.cfg")
      << "shape = tiny\nblocks = auto\nrow = all\nrow = one: blocks=1\n";
  const std::string arguments = "--config '" + (folder / "auto.cfg") +
                                "' --quick --time-budget 0.05 --threads 1 --results '" +
                                folder.path() + "'";
  for (const char* flag : {"", " --blocks auto --force"}) {
    const Outcome outcome = decode_time(arguments + flag);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  const RecordFile file(folder.path(), "auto");
  std::map<std::string, std::set<std::string>> blocks, held;
  for (const Record& r : file.records()) {
    blocks[r.row].insert(r.config.at("blocks").dump());
    held[r.row].insert(r.config.at("blocks_held").dump());
  }
  EXPECT_EQ(blocks["all"], (std::set<std::string>{"\"auto\""}));
  EXPECT_EQ(held["all"], (std::set<std::string>{"2"}));
  // The config's in the first run, the flag's in the second.
  EXPECT_EQ(blocks["one"], (std::set<std::string>{"1", "\"auto\""}));
  EXPECT_EQ(held["one"], (std::set<std::string>{"1", "2"}));
  expect_mentions(file.records().back().command, {"--blocks auto"});
  expect_mentions(decode_time("--help").text, {"--blocks", "auto"});
  expect_mentions(decode_time(arguments + " --dry-run").text, {"blocks=auto"});
}

TEST(Driver, PaperProtocolAndDryRun) {
  const Folder folder;
  EXPECT_EQ(decode_time(smoke(folder) + " --rows baseline --protocol paper").status, 0);
  const Outcome dry =
      decode_time("--config '" + std::string(SOURCE_DIR) +
                  "/experiments/configs/decode/table1_17b.cfg' --dry-run --results /proc/none");
  EXPECT_EQ(dry.status, 0) << dry.text;
  // Hyphens or underscores.
  EXPECT_EQ(decode_time("--config '" + std::string(SOURCE_DIR) +
                        "/experiments/configs/decode/table1_17b.cfg' --dry_run --weight-type=f32 "
                        "--results /proc/none")
                .text,
            dry.text);
  expect_mentions(dry.text,
                  {"ff_qkv_cross_loss4", "d_ff=65536", "weights read", "GFLOP", "1 of 6 blocks"});
}

TEST(Driver, MistakesExitWithTwoAndASentence) {
  const Folder folder;
  std::ofstream(folder / "tiny_smoke.jsonl") << "not a record\n";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--wings", "known are"},
      {"--config /nonexistent.cfg", "cannot be read"},
      {"--config '" + kSmoke + "' --rows nobody", "known are: baseline, sparse"},
      {"--config '" + kSmoke + "' --results /proc/none", "cannot be written"},
      {"--config '" + kSmoke + "' --d_ff 129 --results '" + folder.path() + "'", "129"},
      {"--config '" + kSmoke + "' --vocab_size 1 --loss_modules 1 --results '" + folder.path() +
           "'",
       "vocab_size is 1"},
      {smoke(folder), "tiny_smoke.jsonl:1"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = decode_time(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    expect_mentions(outcome.text, {"error: ", words});
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
  EXPECT_EQ(contents(folder / "tiny_smoke.jsonl"), "not a record\n");
}

TEST(Driver, ARowThatDoesNotFitFailsAndTheOthersGoOn) {
  const Folder folder;
  std::ofstream(folder / "big.cfg")
      << "shape = tiny\nrow = huge: vocab_size=2000000000 d_model=512 encoder=false\n"
         "row = small: against=small\n";
  const Outcome outcome =
      decode_time("--config '" + (folder / "big.cfg") +
                  "' --quick --time-budget 0.05 --threads 1 --results '" + folder.path() + "'");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  const RecordFile file(folder.path(), "big");
  ASSERT_EQ(file.records().size(), 1 + kMetrics);
  EXPECT_EQ(file.records().front().status, Status::failed);
  EXPECT_FALSE(file.records().front().note.empty());
  EXPECT_EQ(file.records().back().row, "small");
}

/// Starts the driver with a budget it cannot use up soon, ends it by `signal` once it has written
/// some rows.
int run_and_signal(const Folder& folder, int signal) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string log = folder / "log";
    if (!std::freopen(log.c_str(), "w", stdout) || !std::freopen(log.c_str(), "a", stderr))
      _exit(9);
    execl(kDriver.c_str(), kDriver.c_str(), "--config", kSmoke.c_str(), "--threads", "1,2",
          "--time-budget", "1", "--results", folder.path().c_str(), nullptr);
    _exit(9);
  }
  const std::string records = folder / "tiny_smoke.jsonl";
  int status = 0;
  const std::string closing = "\"metric\":\"token_ms\"";
  // Until the first row is on disk to its end, or the driver has ended by itself.
  while (waitpid(child, &status, WNOHANG) == 0) {
    const std::string text = contents(records);
    if (text.find(closing) != std::string::npos && text.ends_with('\n')) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, signal);
  waitpid(child, &status, 0);
  return status;
}

TEST(Driver, AKilledRunKeepsItsRowsAndTheNextContinues) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    const Folder folder;
    const int status = run_and_signal(folder, signal);
    if (signal == SIGKILL) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << contents(folder / "log");
      expect_mentions(contents(folder / "log"),
                      {"interrupted", "tiny_smoke.jsonl", "same command"});
    }
    const std::size_t kept = RecordFile(folder.path(), "tiny_smoke").records().size();
    EXPECT_GT(kept, 0u);
    EXPECT_LT(kept, kRows * kMetrics);
    const Outcome next =
        decode_time("--config '" + kSmoke + "' --threads 1,2 --time-budget 0.05 --results '" +
                    folder.path() + "'");
    EXPECT_EQ(next.status, 0) << next.text;
    expect_mentions(next.text, {"already measured"});
    EXPECT_EQ(RecordFile(folder.path(), "tiny_smoke").records().size(), kRows * kMetrics);
  }
}

}  // namespace
}  // namespace scaling
