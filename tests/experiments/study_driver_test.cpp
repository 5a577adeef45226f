// What every study does: plan, measure, resume, fail, stop, share a file, share the work; first a
// study made up for it, then the programs themselves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "experiments/study/interrupt.h"
#include "experiments/study/provenance.h"
#include "experiments/study/study.h"
#include "kernels/check.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

// -- a study made up ------------------------------------------------------------------------------

struct MadeUpKnobs {
  int repeats = 3;
  double patience = 1;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("repeats", k.repeats, "times", Trait{.quick = "2"});
    visit("patience", k.patience, "seconds", Trait{.in_key = InKey::no});
  }
};

/// A row's numbers are its width, as often as --repeats says; `mood` decides what becomes of it.
class MadeUpStudy : public Study {
 public:
  StudyInfo info() const override {
    return {.name = "made_up",
            .program = "made_up",
            .about = "measures nothing",
            .folder = "study",
            .example = "x.cfg",
            .threads = "1,2",
            .one_thread_count = false,
            .timed = false,
            .quick = "fewer"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<KnobInfo> row_knobs() const override {
    return {{"width", "a size", "4"},
            {"unused", "of no layer that a row has", "0"},
            {"mood", "good, bad, absent, stopped", "good"}};
  }
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    std::vector<Point> points;
    for (const FileRow& row : file.rows) {
      for (const int threads : options.threads) {
        Point point;
        point.row = point.against = row.name;
        point.threads = threads;
        Settings settings = {{"width", "4"}, {"unused", "0"}, {"mood", "good"}};
        for (const auto& [name, value] : row.settings) {
          for (auto& setting : settings) {
            if (setting.first == name) setting.second = value;
          }
        }
        settings.emplace_back("repeats", print_value(knobs_.repeats));
        point.settings = settings;
        point.flags = {{"rows", row.name}};
        if (settings[2].second == "absent") point.unavailable = "it is not here";
        if (is_wanted(options.rows, row.name)) points.push_back(std::move(point));
      }
    }
    return points;
  }
  void measure(std::span<const Point* const> group, Sink& sink) override {
    for (const Point* point : group) {
      const std::string mood = point->settings[2].second;
      if (mood == "bad") throw UserError("it is in a bad mood");
      if (mood == "stopped") throw Interrupted{};
      ++measured;
      const double width = std::stod(point->settings[0].second);
      sink.add(*point, {{.name = "first", .unit = "1", .values = {width}}});
      sink.close(*point, {{.name = "last",
                           .unit = "1",
                           .values = std::vector<double>(std::size_t(knobs_.repeats), width)}});
    }
  }
  Metric closing(const Point&) const override { return {.name = "last", .unit = "1"}; }
  bool counts(const std::string& setting, const Settings&) const override {
    return setting != "unused";
  }

  int measured = 0;

 private:
  MadeUpKnobs knobs_;
};

struct MadeUpRun {
  int status, measured;
  std::string text;
};

MadeUpRun run_made_up(const Folder& folder, std::vector<std::string> flags) {
  MadeUpStudy study;
  flags.insert(flags.begin(), {"made_up", "--results", folder.path()});
  if (std::find(flags.begin(), flags.end(), "--config") == flags.end()) {
    flags.insert(flags.end(), {"--config", folder / "some.cfg"});
  }
  std::vector<const char*> argv;
  for (const std::string& flag : flags) argv.push_back(flag.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_study(study, int(argv.size()), argv.data());
  const std::string out = testing::internal::GetCapturedStdout();
  return {status, study.measured, out + testing::internal::GetCapturedStderr()};
}

std::vector<Record> records_in(const Folder& folder, const std::string& experiment = "some") {
  return RecordFile(folder.path(), experiment).records();
}

TEST(Study, MeasuresWhatIsNotFinishedAndSaysWhatItIs) {
  const Folder folder;
  std::ofstream(folder / "some.cfg") << "title = Some title\nid = so\nwidth = 8\nrow = a\n"
                                        "row = b: width=16\n";
  const MadeUpRun first = run_made_up(folder, {});
  EXPECT_EQ(first.status, 0) << first.text;
  EXPECT_EQ(first.measured, 4);
  expect_mentions(first.text,
                  {"some: Some title", "4 measurements", "a: 1,2 threads", "records: "});
  const std::vector<Record> records = records_in(folder);
  ASSERT_EQ(records.size(), 8u);
  const Record& last = records.back();
  EXPECT_EQ(last.study + "|" + last.title + "|" + last.id, "made_up|Some title|so");
  EXPECT_EQ(last.row + "|" + last.metric, "b|last");
  EXPECT_EQ(last.value, 16);
  EXPECT_EQ(last.config.at("width"), 16);
  EXPECT_EQ(last.command, "made_up --config some.cfg --rows b --threads 2");
  EXPECT_EQ(last.key, records[6].key);
  EXPECT_NE(last.key, records[4].key);
  EXPECT_FALSE(last.sources.empty());

  const MadeUpRun again = run_made_up(folder, {});
  EXPECT_EQ(again.measured, 0) << again.text;
  expect_mentions(again.text, {"a: 1,2 threads already measured; --force repeats"});
  EXPECT_EQ(run_made_up(folder, {"--rows", "b"}).measured, 0);
  EXPECT_EQ(run_made_up(folder, {"--force", "--rows", "b"}).measured, 2);
  // What may change the result is measured again, what cannot is not.
  EXPECT_EQ(run_made_up(folder, {"--patience", "5"}).measured, 0);
  EXPECT_EQ(run_made_up(folder, {"--unused", "5"}).measured, 0);
  EXPECT_EQ(run_made_up(folder, {"--width", "4"}).measured, 4);
  EXPECT_EQ(run_made_up(folder, {"--repeats", "4"}).measured, 4);
  EXPECT_EQ(run_made_up(folder, {"--quick"}).measured, 4);
  EXPECT_EQ(run_made_up(folder, {"--threads", "1,3"}).measured, 2);
}

TEST(Study, AFailingPointLeavesTheOthers) {
  const Folder folder;
  std::ofstream(folder / "some.cfg")
      << "row = bad: mood=bad\nrow = absent: mood=absent\nrow = good\n";
  for (int round = 0; round < 2; ++round) {
    const MadeUpRun run = run_made_up(folder, {});
    EXPECT_EQ(run.status, 1) << run.text;
    EXPECT_EQ(run.measured, round == 0 ? 2 : 0);
    expect_mentions(run.text, {"bad, 1 thread: failed, it is in a bad mood",
                               "absent, 2 threads: skipped, it is not here"});
    const std::vector<Record> records = records_in(folder);
    EXPECT_EQ(records.size(), 2u + 2 + 4) << "a reason is recorded once";
    for (const Record& r : records) {
      EXPECT_EQ(r.status, r.row == "bad"      ? Status::failed
                          : r.row == "absent" ? Status::skipped
                                              : Status::ok);
      EXPECT_EQ(std::isnan(r.value), r.row != "good");
    }
  }
}

TEST(Study, AnInterruptionSaysWhatIsKept) {
  const Folder folder;
  std::ofstream(folder / "some.cfg") << "row = good\nrow = stopped: mood=stopped\nrow = later\n";
  const MadeUpRun run = run_made_up(folder, {});
  EXPECT_EQ(run.status, 130);
  EXPECT_EQ(run.measured, 2);
  expect_mentions(run.text, {"interrupted", "some.jsonl", "same command"});
}

TEST(Study, RefusesInASentence) {
  const Folder folder;
  std::ofstream(folder / "some.cfg") << "row = a\nrow = b\n";
  std::ofstream(folder / "twin.cfg") << "row = a\nrow = a\n";
  std::ofstream(folder / "odd.cfg") << "wings = 2\nrow = a\n";
  std::ofstream(folder / "row.cfg") << "row = a: wings=2\n";
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--wings"}, "known are: --config --rows"},
      {{"--repeats", "many"}, "'many' for repeats"},
      {{"--threads", "none"}, "'none' is no number of threads"},
      {{"--shard", "3/3"}, "K from 0 to N - 1"},
      {{"--accept", "main"}, "'main', which is no commit"},
      {{"--rows", ""}, "--rows '' names nothing"},
      {{"--rows", ","}, "--rows ',' names nothing"},
      {{"--config", "/nonexistent.cfg"}, "cannot be read"},
      {{"--config", folder / "twin.cfg"}, "two rows have the name 'a'"},
      {{"--config", folder / "odd.cfg"}, "no knob 'wings'"},
      {{"--config", folder / "row.cfg"}, "row 'a': there is no knob 'wings'"}};
  for (const auto& [flags, words] : mistakes) {
    const MadeUpRun run = run_made_up(folder, flags);
    EXPECT_EQ(run.status, 2) << run.text;
    expect_mentions(run.text, {"error: ", words});
  }
}

/// A record's text with one field changed.
void rewrite(const Folder& folder, const std::function<void(Record&)>& change) {
  std::string text;
  for (Record r : records_in(folder)) {
    change(r);
    text += to_line(r) + "\n";
  }
  std::ofstream(folder / "some.jsonl") << text;
}

TEST(Study, RecordsHoldBySettingsMachineAndCode) {
  const Folder folder;
  std::ofstream(folder / "some.cfg") << "row = a\n";
  EXPECT_EQ(run_made_up(folder, {}).measured, 2);
  // As before the knobs came that are left at their defaults, and before keys were as they are.
  rewrite(folder, [](Record& r) {
    r.config.erase("width");
    r.config.erase("unused");
    r.config["noted_on_the_way"] = "eigen";
    r.key = "another";
  });
  EXPECT_EQ(run_made_up(folder, {}).measured, 0);
  EXPECT_EQ(run_made_up(folder, {"--width", "5"}).measured, 2);
  const std::string before = contents(folder / "some.jsonl");
  for (const auto& change : std::vector<std::function<void(Record&)>>{
           [](Record& r) { r.provenance.cpu = "another"; },
           [](Record& r) { r.provenance.cores += 1; }, [](Record& r) { r.sources = "another"; },
           [](Record& r) { r.config["width"] = 6; }, [](Record& r) { r.seed = 6; },
           [](Record& r) { r.study = "another"; },
           // Not measured to its end.
           [](Record& r) { r.metric = "first"; }, [](Record& r) { r.status = Status::failed; },
           [](Record& r) { r.status = Status::skipped; }}) {
    rewrite(folder, change);
    EXPECT_EQ(run_made_up(folder, {}).measured, 2);
    std::ofstream(folder / "some.jsonl") << before;
  }
  rewrite(folder, [](Record& r) {
    r.sources.clear();
    r.study.clear();
    r.provenance.commit = "0123456789ab";
    r.provenance.dirty = false;
  });
  EXPECT_EQ(run_made_up(folder, {"--accept", "01234567"}).measured, 0);
  EXPECT_EQ(run_made_up(folder, {"--accept", "76543210"}).measured, 2);
  // What is not timed may come from another machine, if its commit is accepted.
  rewrite(folder, [](Record& r) { r.provenance.cpu = "another"; });
  EXPECT_EQ(run_made_up(folder, {"--accept", "01234567"}).measured, 0);
  EXPECT_EQ(run_made_up(folder, {}).measured, 2);
}

TEST(Study, ShardsShareThePoints) {
  const Folder whole, parts;
  std::string config;
  for (int i = 0; i < 9; ++i) config += "row = r" + std::to_string(i) + "\n";
  std::ofstream(whole / "some.cfg") << config;
  std::ofstream(parts / "some.cfg") << config;
  run_made_up(whole, {});
  // Nine rows by two numbers of threads, which stay together.
  EXPECT_EQ(run_made_up(parts, {"--shard", "0/4"}).measured, 2 * 3);
  for (const char* shard : {"1/4", "2/4", "3/4"}) {
    EXPECT_EQ(run_made_up(parts, {"--shard", shard}).measured, 2 * 2) << shard;
  }
  std::set<std::string> one, four;
  for (const Record& r : records_in(whole)) one.insert(r.key + r.metric);
  for (const Record& r : records_in(parts)) four.insert(r.key + r.metric);
  EXPECT_EQ(one, four);
}

// -- the programs ---------------------------------------------------------------------------------

struct Program {
  std::string name, experiment, config;
  std::string tiny;   ///< flags that make it a matter of seconds
  std::string other;  ///< a flag that changes what is measured
};

std::ostream& operator<<(std::ostream& out, const Program& program) { return out << program.name; }

class Programs : public testing::TestWithParam<Program> {
 protected:
  std::string flags(const Folder& folder) const {
    return config() + GetParam().tiny + " --threads 1 --results '" + folder.path() + "' ";
  }
  std::string config() const {
    const std::string& path = GetParam().config;
    return path.empty()
               ? ""
               : "--config '" + std::string(SOURCE_DIR) + "/experiments/configs/" + path + "' ";
  }
  Outcome run(const std::string& arguments) const { return run_driver(GetParam().name, arguments); }
  /// Points that are measured to some number, by name and metric.
  /// Growth of resident memory is recorded where there was any, which is not the program's to say.
  std::set<std::string> found(const Folder& folder) const {
    std::set<std::string> names;
    for (const Record& r : records_in(folder, GetParam().experiment)) {
      if (r.metric.find("peak_bytes") != std::string::npos) continue;
      names.insert(r.row + "|" + std::to_string(r.threads) + "|" + r.metric);
    }
    return names;
  }
};

TEST_P(Programs, SayWhatTheyCanDo) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  expect_mentions(help.text, {GetParam().name, "--rows", "--shard", "--accept", "--dry-run"});
  const Outcome unknown = run("--wings");
  EXPECT_EQ(unknown.status, 2);
  expect_mentions(unknown.text, {"error: ", "known are:", "--threads"});
}

TEST_P(Programs, PlanWithoutMemory) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string path = std::string(BINARY_DIR) + "/experiments/" + GetParam().name;
    execl("/bin/sh", "sh", "-c",
          ("exec '" + path + "' " + config() + " --dry-run --results /proc/none >/dev/null 2>&1")
              .c_str(),
          nullptr);
    _exit(9);
  }
  int status = 0;
  rusage usage{};
  ASSERT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#ifndef __SANITIZE_ADDRESS__
  EXPECT_LT(usage.ru_maxrss, 300 * 1024) << "kilobytes";
#endif
}

TEST_P(Programs, RepeatNothingAndStopAnywhere) {
  const Folder whole;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run(flags(whole)).status, 0);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const std::set<std::string> all = found(whole);
  EXPECT_FALSE(all.empty());
  const std::string before = contents(whole / (GetParam().experiment + ".jsonl"));
  const Outcome again = run(flags(whole));
  EXPECT_EQ(again.status, 0) << again.text;
  expect_mentions(again.text, {"already measured; --force repeats"});
  EXPECT_EQ(contents(whole / (GetParam().experiment + ".jsonl")), before);
  ASSERT_EQ(run(flags(whole) + GetParam().other).status, 0);
  EXPECT_GT(contents(whole / (GetParam().experiment + ".jsonl")).size(), before.size());

  const Folder stopped;
  std::random_device random;
  const std::string seconds = std::to_string(taken.count() * double(1 + random() % 999) / 1000);
  const std::string path = std::string(BINARY_DIR) + "/experiments/" + GetParam().name;
  std::system(
      ("timeout -s INT " + seconds + " '" + path + "' " + flags(stopped) + " >/dev/null 2>&1")
          .c_str());
  const Outcome rest = run(flags(stopped));
  EXPECT_EQ(rest.status, 0) << "stopped after " << seconds << " s: " << rest.text;
  EXPECT_EQ(found(stopped), all) << "stopped after " << seconds << " s";
}

TEST_P(Programs, AppendToOneFileTogether) {
  const Folder folder, alone;
  ASSERT_EQ(run(flags(alone)).status, 0);
  Outcome first{}, second{};
  std::thread other([&] { second = run(flags(folder)); });
  first = run(flags(folder));
  other.join();
  EXPECT_EQ(first.status, 0) << first.text;
  EXPECT_EQ(second.status, 0) << second.text;
  EXPECT_EQ(found(folder), found(alone));
}

/// perplexity, whose curves two processes do not train together, has these tests of its own.
const Program kPrograms[] = {
    {"decode_time", "tiny_smoke", "decode/tiny_smoke.cfg",
     "--quick --time-budget 0.05 --rows baseline,sparse", "--seed 2"},
    {"bench_kernels", "kernels", "", "--benchmark_min_time=0.0001 --benchmark_filter=^softmax/",
     "--prefetch kernel"},
    {"bench_layers", "layers", "",
     "--shape tiny --benchmark_min_time=0.0001 --benchmark_filter=low_rank/f32/t1/",
     "--kernels eigen"},
    {"ceilings", "ceilings", "", "--quick --rows fma,read_1MiB", "--pin"},
    {"long_sequence", "long_sequence", "attention/long_sequence.cfg",
     "--quick --repeats 1 --d_model 16 --n_heads 2 --lsh_chunk 4 --lengths 16,32",
     "--lsh_rounds 1"},
    {"attention_recall", "attention_recall", "attention/attention_recall.cfg",
     "--d_model 16 --n_heads 2 --length 64 --chunks 4,8 --rounds 1,2", "--seed 2"},
    {"reversibility", "reversibility", "stacks/reversibility.cfg",
     "--quick --repeats 1 --d_model 16 --d_ff 32 --max_length 16 --n_heads 2 --vocab_size 16 "
     "--depths 2 --batches 1 --rows dense_plain,dense_reversible,replay_ff",
     "--seed 2"}};

INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(kPrograms),
                         [](const auto& program) { return program.param.name; });

TEST(Shards, OfThreeProcessesShowTheRecordsOfOne) {
  const auto flags = [](const Folder& folder) {
    return "--config '" + std::string(SOURCE_DIR) +
           "/experiments/configs/attention/attention_recall.cfg' --threads 1 --d_model 16 "
           "--n_heads 2 --length 48 --chunks 4,8 --rounds 1,2,4 --results '" +
           folder.path() + "' ";
  };
  const Folder whole, parts;
  ASSERT_EQ(run_driver("attention_recall", flags(whole)).status, 0);
  std::vector<std::thread> processes;
  std::vector<Outcome> outcomes(3);
  for (std::size_t k = 0; k < 3; ++k) {
    processes.emplace_back([&, k] {
      outcomes[k] =
          run_driver("attention_recall", flags(parts) + "--shard " + std::to_string(k) + "/3");
    });
  }
  for (std::thread& process : processes) process.join();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.text;
  const auto values = [](const Folder& folder) {
    std::multiset<std::string> found;
    for (const Record& r : records_in(folder, "attention_recall")) {
      found.insert(r.key + r.metric + std::to_string(r.value));
    }
    return found;
  };
  EXPECT_EQ(values(whole), values(parts));
}

TEST(Shards, OfATimedStudyDoNotShareAMachine) {
  const std::string path = (fs::temp_directory_path() / "scaling_timed_shard.lock").string();
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  const Folder folder;
  const std::string flags = "--quick --rows fma --threads 1 --results '" + folder.path() + "'";
  const Outcome shard = run_driver("ceilings", flags + " --shard 0/2");
  EXPECT_EQ(shard.status, 2);
  expect_mentions(shard.text, {"another shard of a timed study", path});
  ::close(file);
  EXPECT_EQ(run_driver("ceilings", flags + " --shard 0/2").status, 0);
}

int shell(const std::string& command) { return std::system(command.c_str()); }

/// Of a checkout whose name a shell would take apart.
TEST(Provenance, AProgramIsStaleOnceItsSourcesAreOthers) {
  if (shell("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no git";
  const Folder folder;
  const std::string tree = folder / "it's a tree", note = folder / "program.built_from";
  const std::string git = "git -C \"" + tree + "\" ";
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(tree + "/" + name).parent_path());
    std::ofstream(tree + "/" + name) << text;
  };
  const auto link = [&] {
    ASSERT_EQ(shell("sh \"" + tree + "/cmake/sources.sh\" \"" + note + "\""), 0);
  };
  write("kernels/a.cpp", "1");
  write("experiments/study/b.h", "2");
  write("experiments/peers/c.cpp", "3");
  fs::create_directories(tree + "/cmake");
  fs::copy_file(std::string(SOURCE_DIR) + "/cmake/sources.sh", tree + "/cmake/sources.sh");
  EXPECT_FALSE(is_stale(note, tree)) << "no git, no note";
  ASSERT_EQ(shell(git + "init -q && " + git + "add kernels"), 0);
  EXPECT_FALSE(is_stale(note, tree)) << "no note";
  link();
  EXPECT_FALSE(is_stale(note, tree));
  // What git knows of files is nothing to a program.
  ASSERT_EQ(shell(git + "add -A"), 0);
  EXPECT_FALSE(is_stale(note, tree));
  write("experiments/peers/c.cpp", "4");
  write("README.md", "5");
  EXPECT_FALSE(is_stale(note, tree)) << "nothing that is compiled";
  write("kernels/a.cpp", "6");
  EXPECT_TRUE(is_stale(note, tree));
  write("kernels/a.cpp", "1");
  EXPECT_FALSE(is_stale(note, tree));
  write("models/new.cpp", "7");
  EXPECT_TRUE(is_stale(note, tree));
  link();
  fs::remove(tree + "/experiments/study/b.h");
  EXPECT_TRUE(is_stale(note, tree));
  link();
  EXPECT_FALSE(is_stale(note, tree)) << "deleted, and not told to git";
}

/// Each program has a note, and this test was built with them.
TEST(Provenance, ProgramsAreOfTheSourcesThatAreThere) {
  if (shell("git -C '" + std::string(SOURCE_DIR) + "' status > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "the sources are no checkout of git's";
  }
  for (const char* name : {"perplexity", "decode_time", "sparsefinder"}) {
    const std::string note =
        std::string(BINARY_DIR) + "/experiments/" + name + std::string(".built_from");
    ASSERT_TRUE(fs::exists(note)) << note;
    EXPECT_FALSE(is_stale(note, SOURCE_DIR)) << "build all of it anew: ./build.sh";
  }
}

}  // namespace
}  // namespace scaling
