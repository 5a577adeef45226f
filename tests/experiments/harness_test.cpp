// The instruments of the experiments: configs, flags, records, statistics, grouping, protocol, the
// driver.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "experiments/decode/decode_metrics.h"
#include "experiments/decode/experiment.h"
#include "experiments/decode/grouping.h"
#include "experiments/decode/options.h"
#include "experiments/instruments/interleave.h"
#include "experiments/study/progress.h"
#include "experiments/study/record.h"
#include "experiments/study/results_dir.h"
#include "experiments/study/statistics.h"
#include "tests/experiments/harness_helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

Experiment parse(const std::string& text, const Settings& overrides = {}) {
  std::istringstream in(text);
  return parse_experiment(in, "some.cfg", overrides);
}

Options options_of(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "decode_time");
  return parse_options(int(flags.size()), flags.data());
}

Row row_named(const Experiment& experiment, const std::string& name) {
  return select_rows(experiment, {name}).front();
}

TEST(Experiment, RowsInheritTheFileAndTheCommandLineWins) {
  const std::string text =
      "experiment = some  # its name\n"
      "title = A title with = and spaces\n"
      "shape = tiny\n"
      "d_ff = 256\n"
      "batch = 2\n"
      "row = baseline\n"
      "row = ff: feed_forward=sparse sparsity=4 batch=3\n"
      "row = wide: d_ff=512 against=ff\n";
  const Experiment plain = parse(text);
  EXPECT_EQ(plain.name, "some");
  EXPECT_EQ(plain.title, "A title with = and spaces");
  ASSERT_EQ(plain.rows.size(), 3u);
  EXPECT_EQ(plain.rows[0].model.d_model, 32);
  EXPECT_EQ(plain.rows[0].model.d_ff, 256);
  EXPECT_EQ(plain.rows[0].batch, 2);
  EXPECT_EQ(plain.rows[0].against, "baseline");
  EXPECT_EQ(plain.rows[1].model.feed_forward, "sparse");
  EXPECT_EQ(plain.rows[1].model.sparsity, 4);
  EXPECT_EQ(plain.rows[1].batch, 3);
  EXPECT_EQ(plain.rows[1].against, "baseline");
  EXPECT_EQ(plain.rows[2].model.d_ff, 512);
  EXPECT_EQ(plain.rows[2].against, "ff");
  const Experiment overridden = parse(text, {{"d_ff", "128"}, {"batch", "1"}});
  for (const Row& row : overridden.rows) {
    EXPECT_EQ(row.model.d_ff, 128);
    EXPECT_EQ(row.batch, 1);
  }
}

TEST(Experiment, ASizeGivenAnywhereBeatsTheShape) {
  const Experiment e = parse("encoder = false\nd_ff = 64\nrow = a: shape=tiny\n");
  EXPECT_FALSE(e.rows[0].model.encoder);
  EXPECT_EQ(e.rows[0].model.d_ff, 64);
  EXPECT_EQ(e.rows[0].model.d_model, 32);
}

TEST(Experiment, NamesFollowTheWeightType) {
  const std::string text = "shape = tiny\nrow = baseline\nrow = ff: feed_forward=sparse\n";
  const Experiment e = parse(text, {{"weight_type", "bf16"}});
  EXPECT_EQ(e.rows[0].name, "baseline.bf16");
  EXPECT_EQ(e.rows[1].name, "ff.bf16");
  EXPECT_EQ(e.rows[1].against, "baseline.bf16");
  EXPECT_EQ(e.name, "some");  // of the file
}

TEST(Experiment, RefusesWhatItDoesNotUnderstand) {
  const auto refusal = [](const std::string& text) { return message_of([&] { parse(text); }); };
  expect_mentions(refusal("shape = tiny\nwidth = 7\nrow = a\n"),
                  {"some.cfg", "'width'", "d_model", "batch"});
  expect_mentions(refusal("shape = tiny\nrow = a: width=7\n"),
                  {"some.cfg", "row 'a'", "'width'", "d_model"});
  expect_mentions(refusal("shape = tiny\nrow = a: d_ff\n"), {"row 'a'", "'d_ff'", "knob=value"});
  expect_mentions(refusal("shape = tiny\nrow = a: d_ff=many\n"), {"row 'a'", "many", "d_ff"});
  expect_mentions(refusal("shape = tiny\nrow = a: batch=-1\n"), {"'-1'", "batch"});
  expect_mentions(refusal("shape = tiny\nrow = a: batch=17\n"), {"17", "16"});
  expect_mentions(refusal("shape = huge\nrow = a\n"), {"huge", "tiny", "17b"});
  expect_mentions(refusal("shape = tiny\nrow = a\nrow = a\n"), {"two rows", "'a'"});
  expect_mentions(refusal("shape = tiny\nrow = a: against=b\n"), {"'b'", "no row"});
  expect_mentions(refusal("shape = tiny\n"), {"no rows"});
  expect_mentions(refusal("shape = tiny\nrow = : d_ff=3\n"), {"no row name"});
  expect_mentions(refusal("shape = tiny\nshape = tiny\nrow = a\n"), {"some.cfg", "shape"});
  expect_mentions(refusal("experiment = ../x\nshape = tiny\nrow = a\n"), {"../x", "letters"});
  expect_mentions(refusal("nonsense\n"), {"some.cfg", "nonsense"});
  expect_mentions(refusal("shape = tiny\nrow = a: context=100\n"), {"max_length", "64", "112"});
  expect_mentions(refusal("shape = tiny\nrow = a: kernels=magic\n"), {"magic", "simd", "ref"});
  expect_mentions(refusal("shape = tiny\nrow = a: own_threads=true\n"),
                  {"own_threads", "eigen", "simd"});
  expect_mentions(refusal("shape = tiny\nrow = a: feed_forward=magic\n"),
                  {"magic", "dense", "sparse"});
  expect_mentions(refusal("shape = tiny\nrow = a: feed_forward=sparse sparsity=7\n"), {"128", "7"});
  expect_mentions(message_of([] { read_experiment("/nonexistent/x.cfg", {}); }),
                  {"x.cfg", "cannot be read"});
}

TEST(Experiment, UnknownRowsListTheKnown) {
  const Experiment e = parse("shape = tiny\nrow = a\nrow = b\n");
  EXPECT_EQ(select_rows(e, {}).size(), 2u);
  EXPECT_EQ(row_named(e, "b").name, "b");
  expect_mentions(message_of([&] { select_rows(e, {"c"}); }), {"'c'", "a, b", "some"});
}

TEST(Experiment, EveryConfigOfTheProjectIsValid) {
  int configs = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SOURCE_DIR) / "experiments/configs/decode")) {
    if (entry.path().extension() != ".cfg") continue;
    ++configs;
    Experiment experiment;
    EXPECT_EQ(message_of([&] { experiment = read_experiment(entry.path().string(), {}); }),
              "no error");
    EXPECT_EQ(experiment.name, entry.path().stem().string());
    EXPECT_FALSE(experiment.title.empty());
  }
  EXPECT_GE(configs, 10);
}

TEST(Options, ReadsFlagsAndKnobs) {
  const Options o =
      options_of({"--config", "x.cfg", "--rows", "a,b", "--threads", "3,1,3", "--protocol", "paper",
                  "--quick", "--d_ff", "64", "--encoder", "false"});
  EXPECT_EQ(o.config, "x.cfg");
  EXPECT_EQ(o.rows, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.threads, (std::vector<int>{1, 3}));
  EXPECT_EQ(o.protocol, Protocol::paper);
  EXPECT_EQ(o.time_budget, 4);
  EXPECT_EQ(o.overrides, (Settings{{"d_ff", "64"}, {"encoder", "false"}}));
  EXPECT_EQ(command_of(o, "a", 3),
            "decode_time --config x.cfg --rows a --threads 3 --protocol paper --quick --d_ff 64 "
            "--encoder false");
  EXPECT_EQ(options_of({"--config", "x.cfg"}).time_budget, 20);
  EXPECT_TRUE(options_of({"--help"}).help);
}

TEST(Options, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](std::vector<const char*> flags) {
    return message_of([&] { options_of(flags); });
  };
  expect_mentions(refusal({"--config", "x", "--wings", "2"}), {"wings", "--rows", "--sparsity"});
  expect_mentions(refusal({"--config", "x", "--row", "a"}), {"--row", "--rows"});
  expect_mentions(refusal({}), {"--config"});
  expect_mentions(refusal({"--config", "x", "--threads", "0"}), {"'0'", "all"});
  expect_mentions(refusal({"--config", "x", "--threads", "two"}), {"'two'", "all"});
  expect_mentions(refusal({"--config", "x", "--threads", ","}), {"--threads"});
  expect_mentions(refusal({"--config", "x", "--protocol", "fast"}), {"fast", "steady", "paper"});
  expect_mentions(refusal({"--config", "x", "--time-budget", "-3"}), {"--time-budget", "-3"});
  expect_mentions(refusal({"--config", "x", "--time-budget", "long"}), {"time-budget", "long"});
  expect_mentions(refusal({"x.cfg"}), {"--help"});
}

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

TEST(Grouping, FamilyFirstThenWhateverFits) {
  using Groups = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(group_rows({{4, "a"}, {4, "b"}, {4, "a"}, {4, "b"}}, 8), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(group_rows({{4, "a"}, {9, "a"}, {3, "b"}, {2, "a"}}, 8), (Groups{{0, 3}, {1}, {2}}));
  EXPECT_EQ(group_rows({{4, "a"}, {9, "a"}, {1, "b"}, {2, "a"}}, 8), (Groups{{0, 3, 2}, {1}}));
  EXPECT_EQ(group_rows({}, 8), Groups{});
  EXPECT_EQ(group_rows({{1, "a"}, {~0ull, "a"}}, 8), (Groups{{0}, {1}}));
}

/// Decodes in a scripted time under scripted ceilings.
class FakeSubject : public Subject {
 public:
  FakeSubject(std::string name, std::vector<std::string>* log)
      : name_(std::move(name)), log_(log) {}
  std::string name() const override { return name_; }
  void warm_up() override { ++warm_ups; }
  void prepare(int number) override { prepared = number; }
  Decode decode(int number) override {
    EXPECT_EQ(number, prepared);
    log_->push_back(name_);
    return {{10 + jitter * (number % 3), 1}, 5, long_tokens};
  }
  Ceilings ceilings() override {
    ++measured;
    const double read = unsteady && measured % 2 == 0 ? 80e9 : 50e9;
    return {read, 1e12};
  }
  int warm_ups = 0, prepared = -1, measured = 0;
  bool unsteady = false;
  double jitter = 0;
  std::vector<LongToken> long_tokens;

 private:
  std::string name_;
  std::vector<std::string>* log_;
};

std::map<std::size_t, Samples> run(const std::vector<Subject*>& subjects,
                                   const ProtocolSettings& settings) {
  std::map<std::size_t, Samples> results;
  run_protocol(
      subjects, settings,
      [&](std::size_t i, const Samples& samples) {
        EXPECT_EQ(results.count(i), 0u);
        results[i] = samples;
      },
      [](const std::string&) {});
  return results;
}

TEST(Protocol, InterleavesUntilTheMedianIsKnown) {
  std::vector<std::string> log;
  FakeSubject a("a", &log), b("b", &log);
  const auto results = run({&a, &b}, {});
  ASSERT_EQ(results.size(), 2u);
  // Six equal values are the fewest with a 95 % interval.
  EXPECT_EQ(results.at(0).kept.size(), 6u);
  EXPECT_EQ(results.at(1).kept.size(), 6u);
  EXPECT_EQ(a.warm_ups, 1);
  for (std::size_t round = 0; round < 6; ++round) {
    EXPECT_EQ((std::set<std::string>{log[2 * round], log[2 * round + 1]}.size()), 2u);
  }
  EXPECT_EQ(uncertainty_of(results.at(0)), 0);
}

TEST(Protocol, BudgetEndsAnImpreciseRow) {
  std::vector<std::string> log;
  FakeSubject a("a", &log);
  a.jitter = 5;
  ProtocolSettings settings;
  settings.budget_seconds = 1e-9;
  EXPECT_EQ(run({&a}, settings).at(0).kept.size(), 6u);
}

TEST(Protocol, SetsAsideWhatDisagreeingCeilingsBracketAndGivesThatUp) {
  std::vector<std::string> log;
  FakeSubject a("a", &log);
  a.unsteady = true;
  const Samples samples = run({&a}, {}).at(0);
  EXPECT_TRUE(samples.restless);
  EXPECT_TRUE(samples.set_aside.empty());
  EXPECT_EQ(int(samples.kept.size()), samples.attempts);
  EXPECT_GE(samples.attempts, 8);
  EXPECT_DOUBLE_EQ(samples.kept[0].parts[0].ceilings.read_bytes_per_second, 65e9);
  // The reading after one decode serves as the one before the next.
  EXPECT_EQ(a.measured, samples.attempts + 1);
}

TEST(Protocol, LongTokensHaveCeilingsOfTheirOwn) {
  std::vector<std::string> log;
  FakeSubject a("a", &log);
  const Ceilings slow{50e9, 1e12}, fast{60e9, 1e12};
  a.long_tokens.assign(9, {{0.5, 0.1}, slow, slow});
  a.long_tokens.push_back({{0.4, 0.1}, slow, fast});  // the machine changed
  const Samples steady = run({&a}, {}).at(0);
  EXPECT_TRUE(steady.by_token);
  EXPECT_FALSE(steady.restless);
  EXPECT_TRUE(steady.set_aside.empty());
  EXPECT_EQ(steady.kept.size(), 6u)
      << "tokens of one decode are one moment: six decodes all the same";
  EXPECT_EQ(steady.kept[0].parts.size(), 9u);
  EXPECT_DOUBLE_EQ(steady.kept[0].median([](const Part& p) { return p.times.token_seconds; }), 0.5);
  EXPECT_EQ(a.measured, 1) << "before it was known that tokens are long";

  FakeSubject b("b", &log);
  b.long_tokens.assign(6, {{0.4, 0.1}, slow, fast});  // more than half
  b.long_tokens.resize(10, {{0.5, 0.1}, slow, slow});
  const Samples unsteady = run({&b}, {}).at(0);
  EXPECT_TRUE(unsteady.restless);
  EXPECT_EQ(unsteady.kept[0].parts.size(), 10u);
  EXPECT_DOUBLE_EQ(unsteady.kept[0].parts[0].ceilings.read_bytes_per_second, 55e9);
}

TEST(Protocol, PaperWarmsUpBeforeEachOfSix) {
  std::vector<std::string> log;
  FakeSubject a("a", &log);
  a.jitter = 5;
  const char* flags[] = {"decode_time", "--config", "x", "--protocol", "paper"};
  const Samples samples = run({&a}, settings_for(parse_options(5, flags))).at(0);
  EXPECT_EQ(samples.kept.size(), 6u);
  EXPECT_EQ(a.warm_ups, 7);
}

Record example_record(const std::string& experiment = "some") {
  Record r;
  r.experiment = experiment;
  r.row = "ff";
  r.against = "baseline";
  r.threads = 2;
  r.metric = kClosingMetric;
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
  r.date = utc_date();
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

TEST(Records, FileGrowsAndKnowsWhatIsFinished) {
  const Folder folder;
  Record failed = example_record();
  failed.key = "failed";
  failed.status = Status::failed;
  Record part = example_record();
  part.key = "part";
  part.metric = "block_ms";
  {
    RecordFile file(folder.path(), "some");
    EXPECT_FALSE(file.finished("0123"));
    file.append({example_record(), failed});
    file.append({part});
    EXPECT_TRUE(file.finished("0123"));
  }
  const RecordFile again(folder.path(), "some");
  EXPECT_EQ(again.records().size(), 3u);
  EXPECT_TRUE(again.finished("0123"));
  EXPECT_FALSE(again.finished("failed"));
  EXPECT_FALSE(again.finished("part"));
  EXPECT_TRUE(again.has("part"));
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

TEST(Provenance, KeysMachinesByWhatMakesTimingsComparable) {
  const std::string key = machine_key("Some CPU", 2, 24ull << 30);
  EXPECT_EQ(key.size(), 8u);
  EXPECT_EQ(key, machine_key("Some CPU", 2, (24ull << 30) - 1000000));
  EXPECT_NE(key, machine_key("Some CPU", 4, 24ull << 30));
  EXPECT_NE(key, machine_key("Other CPU", 2, 24ull << 30));
  const Provenance p = read_provenance();
  EXPECT_GT(p.memory_bytes, 1ull << 28);
  EXPECT_GE(p.cores, 1);
  EXPECT_FALSE(p.compiler.empty());
  EXPECT_FALSE(p.flags.empty());
}

}  // namespace
}  // namespace scaling
