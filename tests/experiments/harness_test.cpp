// What all studies share: records, statistics, progress, provenance.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "experiments/study/progress.h"
#include "experiments/study/record.h"
#include "experiments/study/statistics.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

TEST(Statistics, QuantilesByHand) {
  EXPECT_DOUBLE_EQ(quantile({3}, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  const Summary s = summarize({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.low, 2);
  EXPECT_DOUBLE_EQ(s.high, 4);
  EXPECT_DOUBLE_EQ(s.spread, 1);
  EXPECT_EQ(s.repeats, 5);
  EXPECT_EQ(summarize({}).repeats, 0);
}

TEST(Statistics, IntervalOfTheMedianByHand) {
  // Six values: the range covers with 1 - 2/64. Nine: the second smallest and largest, 1 - 2
  // (1+9)/512.
  const MedianInterval six = median_interval({6, 5, 4, 3, 2, 1});
  EXPECT_DOUBLE_EQ(six.low, 1);
  EXPECT_DOUBLE_EQ(six.high, 6);
  EXPECT_NEAR(six.coverage, 1 - 2.0 / 64, 1e-12);
  const MedianInterval nine = median_interval({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_DOUBLE_EQ(nine.low, 2);
  EXPECT_DOUBLE_EQ(nine.high, 8);
  EXPECT_NEAR(nine.coverage, 1 - 2 * 10.0 / 512, 1e-12);
  EXPECT_LT(median_interval({1, 2, 3, 4, 5}).coverage, 0.95);
  EXPECT_TRUE(std::isinf(relative_uncertainty({1, 1, 1, 1, 1})));
  EXPECT_DOUBLE_EQ(relative_uncertainty({1, 1, 1, 1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(relative_uncertainty({1, 2, 3, 4, 5, 6, 7, 8, 9}), 3.0 / 5);
  std::vector<double> many(1000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = double(i);
  // The textbook's normal approximation: 500 -+ 1.96 sqrt(1000) / 2.
  EXPECT_NEAR(median_interval(many).low, 468, 1);
  EXPECT_NEAR(median_interval(many).high, 531, 1);
}

Record example_record(const std::string& experiment = "some") {
  Record r;
  r.experiment = experiment;
  r.row = "ff";
  r.against = "baseline";
  r.threads = 2;
  r.metric = "token_ms";
  r.unit = "ms";
  r.set(summarize({1, 2, 4}));
  r.status = Status::extrapolated;
  r.note = "a \"note\"\nof two lines";
  r.config["d_ff"] = 4096;
  r.command = "decode_time --rows ff";
  r.seed = 7;
  r.key = "0123";
  r.ceilings = {50e9, 500e9};
  r.provenance.commit = "abc";
  r.provenance.dirty = true;
  r.provenance.native = true;
  r.provenance.cores = 2;
  r.date = "2026-01-31T12:00:00Z";
  return r;
}

TEST(Records, RoundTrip) {
  const Record r = example_record();
  const std::string line = to_line(r);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(to_line(from_line(line)), line);
  Record none = r;
  none.value = std::nan("");
  none.status = Status::failed;
  EXPECT_TRUE(std::isnan(from_line(to_line(none)).value));
}

TEST(Records, FileGrows) {
  const Folder folder;
  Record other = example_record();
  other.key = "other";
  {
    RecordFile file(folder.path(), "some");
    EXPECT_TRUE(file.records().empty());
    file.append({example_record(), other});
    file.append({other});
    EXPECT_EQ(file.records().size(), 3u);
  }
  const RecordFile again(folder.path(), "some");
  ASSERT_EQ(again.records().size(), 3u);
  EXPECT_EQ(to_line(again.records()[0]), to_line(example_record()));
  EXPECT_EQ(to_line(again.records()[2]), to_line(other));
}

TEST(Records, ReadingAgainFindsWhatAnotherProcessAppended) {
  const Folder folder;
  RecordFile file(folder.path(), "some"), other(folder.path(), "some");
  other.append({example_record()});
  EXPECT_TRUE(file.records().empty());
  file.read_again();
  EXPECT_EQ(file.records().size(), 1u);
  file.read_again();
  EXPECT_EQ(file.records().size(), 1u);

  // A record that is being written is no record yet, and is left to whoever writes it.
  const std::string half = to_line(example_record()).substr(0, 40);
  std::ofstream(file.path(), std::ios::app) << half;
  const std::string before = contents(file.path());
  file.read_again();
  EXPECT_EQ(file.records().size(), 1u);
  EXPECT_EQ(contents(file.path()), before);

  // What was read stays when the file is damaged later.
  std::ofstream(file.path(), std::ios::app) << "\n";
  expect_mentions(message_of([&] { file.read_again(); }), {file.path(), ":2"});
  EXPECT_EQ(file.records().size(), 1u);
}

TEST(Records, ADamagedFileIsNamedAndLeftAlone) {
  const std::string good = to_line(example_record()) + "\n";
  const std::string other = to_line(example_record("other"));
  const std::vector<std::string> bad = {"not json\n",
                                        "not json",
                                        "{}\n",
                                        "\n",
                                        other + "\n",
                                        other,
                                        good.substr(0, good.size() / 2) + "\n",
                                        good.substr(0, good.size() / 2) + "\n" + good};
  for (const std::string& line : bad) {
    const Folder folder;
    const std::string path = folder / "some.jsonl";
    std::ofstream(path) << good << line;
    const std::string before = contents(path);
    expect_mentions(message_of([&] { RecordFile(folder.path(), "some"); }),
                    {path + ":2", "some", "--results"});
    EXPECT_EQ(contents(path), before);
  }
}

TEST(Records, ARecordCutShortAtTheEndIsDroppedAndTheFileGrowsOn) {
  const std::string good = to_line(example_record()) + "\n";
  for (const std::size_t kept : {std::size_t(1), good.size() / 2, good.size() - 1}) {
    for (const std::string& before : {std::string(), good}) {
      const Folder folder;
      const std::string path = folder / "some.jsonl";
      std::ofstream(path) << before << good.substr(0, kept);
      testing::internal::CaptureStderr();
      RecordFile file(folder.path(), "some");
      expect_mentions(testing::internal::GetCapturedStderr(), {path, "no end", "dropped"});
      EXPECT_EQ(contents(path), before);
      file.append({example_record()});
      EXPECT_EQ(contents(path), before + good);
      EXPECT_EQ(RecordFile(folder.path(), "some").records().size(), before.empty() ? 1u : 2u);
    }
  }
}

TEST(Records, AFullDiskLeavesTheFileAsItWas) {
  const Folder folder;
  RecordFile file(folder.path(), "some");
  file.append({example_record()});
  const std::string before = contents(file.path());
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  // Room for a part of the next record.
  const rlimit small{before.size() + 100, limit.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of([&] { file.append({example_record()}); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, handler);
  expect_mentions(message, {file.path(), "free space"});
  EXPECT_EQ(contents(file.path()), before);
  EXPECT_EQ(file.records().size(), 1u);
  file.append({example_record()});
  EXPECT_EQ(RecordFile(folder.path(), "some").records().size(), 2u);
}

TEST(Records, ValuesOfKnobsAreTyped) {
  EXPECT_EQ(typed_value("true").dump(), "true");
  EXPECT_EQ(typed_value("-3").dump(), "-3");
  EXPECT_EQ(typed_value("0.25").dump(), "0.25");
  for (const char* text : {"", "800m", "1.2.3", "nan", "inf", "1 "}) {
    EXPECT_EQ(typed_value(text), text);
  }
}

/// What appears on a terminal of so many columns while `action` has it as standard error.
std::string on_terminal(unsigned short columns, const std::function<void()>& action) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(grantpt(terminal), 0);
  EXPECT_EQ(unlockpt(terminal), 0);
  const winsize size{24, columns, 0, 0};
  EXPECT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const int before = dup(STDERR_FILENO);
  dup2(end, STDERR_FILENO);
  action();
  dup2(before, STDERR_FILENO);
  char text[4096];
  const ssize_t got = read(terminal, text, sizeof text);
  for (const int file : {end, before, terminal}) close(file);
  return std::string(text, std::size_t(std::max<ssize_t>(got, 0)));
}

TEST(Progress, TheLiveLineFillsTheTerminalAndNoMore) {
  const std::string text = "row step 5/9, loss 1.0, 700 tokens/s";
  const auto shown = [&](unsigned short columns, const std::string& what) {
    const std::string all = on_terminal(columns, [&] {
      Progress progress(90);
      progress.live(what);
    });
    return all.substr(0, all.find('\r'));  // what follows wipes it out
  };
  EXPECT_EQ(shown(200, text), "[0 s, about 1 min 30 s left] " + text);
  EXPECT_EQ(shown(60, text), "[1 min 30 s left] " + text);
  EXPECT_EQ(shown(40, text), ("[1 min 30 s left] " + text).substr(0, 39));
  EXPECT_EQ(shown(200, std::string(300, 'x')).size(), 199u);
  EXPECT_EQ(shown(0, std::string(300, 'x')).size(), 100u);
}

TEST(Progress, WhatIsLeftGoesByThePaceSoFarWhereThatIsSlower) {
  const auto shown = [](double estimate, double done) {
    return on_terminal(200, [&] {
      Progress progress(estimate);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      progress.done("row", done);
    });
  };
  EXPECT_NE(shown(100, 50).find("about 50 s left"), std::string::npos);
  // A tenth of a second took two at least, and so will the other nine.
  EXPECT_EQ(shown(1, 0.1).find("about 1 s left"), std::string::npos) << shown(1, 0.1);
  // So little of it tells no pace.
  EXPECT_NE(shown(1000, 0.01).find("about 16 min 40 s left"), std::string::npos);
}

TEST(ResultsDir, RefusesWhatCannotBeWritten) {
  const Folder folder;
  const std::string dir = prepare_results_dir(folder / "a/b", "key");
  EXPECT_TRUE(fs::is_directory(dir));
  std::ofstream(folder / "file") << "x";
  expect_mentions(message_of([&] { prepare_results_dir(folder / "file/below", "key"); }),
                  {"file/below", "--results"});
  expect_mentions(message_of([&] { prepare_results_dir("/proc/none", "key"); }),
                  {"/proc/none", "--results"});
}

/// What /proc/cpuinfo tells of one processor.
std::string cpuinfo(const std::string& family, const std::string& model) {
  return "processor\t: 0\ncpu family\t: " + family + "\nmodel\t\t: " + model +
         "\nmodel name\t: A Processor\nstepping\t: 1\n\n";
}

TEST(Provenance, NamesProcessorsByGenerationToo) {
  EXPECT_EQ(cpu_name(cpuinfo("25", "17") + cpuinfo("25", "17")), "A Processor (25-17-1)");
  EXPECT_EQ(cpu_name("processor\t: 0\nmodel name\t: Other Processor\n"), "Other Processor");
  EXPECT_EQ(cpu_name(""), "unknown");
}

TEST(Provenance, KeysMachinesByWhatMakesTimingsComparable) {
  const std::string key = machine_key("Some CPU", 2, 24ull << 30);
  EXPECT_EQ(key.size(), 8u);
  EXPECT_EQ(key, machine_key("Some CPU", 2, (24ull << 30) - 1000000));
  EXPECT_NE(key, machine_key("Some CPU", 4, 24ull << 30));
  EXPECT_NE(key, machine_key("Other CPU", 2, 24ull << 30));
  EXPECT_NE(machine_key(cpu_name(cpuinfo("25", "17")), 2, 24ull << 30),
            machine_key(cpu_name(cpuinfo("26", "2")), 2, 24ull << 30));
  const Provenance p = read_provenance();
  EXPECT_GT(p.memory_bytes, 1ull << 28);
  EXPECT_GE(p.cores, 1);
  EXPECT_FALSE(p.compiler.empty());
  EXPECT_FALSE(p.flags.empty());
}

}  // namespace
}  // namespace scaling
