// Rows and flags of decode experiments, what becomes points, which rows share memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "experiments/decode/decode_row.h"
#include "experiments/decode/decode_study.h"
#include "experiments/decode/grouping.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

std::vector<DecodeRow> parse(const std::string& text, const Settings& overrides = {}) {
  std::istringstream in(text);
  return decode_rows(parse_row_file(in, "some.cfg", decode_row_knobs(), overrides));
}

/// A study with its flags set.
struct Parsed {
  explicit Parsed(std::vector<const char*> flags) {
    flags.insert(flags.begin(), "decode_time");
    options = parse_run_options(*study, int(flags.size()), flags.data());
  }
  std::vector<Point> points(const std::string& text) {
    std::istringstream in(text);
    return study->points(parse_row_file(in, "some.cfg", study->row_knobs(), options.overrides),
                         options);
  }
  std::string setting(const std::string& text, const std::string& name) {
    const Settings settings = points(text).front().settings;
    for (const auto& [key, value] : settings) {
      if (key == name) return value;
    }
    return "none";
  }
  const std::unique_ptr<Study> study = make_decode_study();
  RunOptions options;
};

const char* const kText =
    "experiment = some  # its name\n"
    "title = A title with = and spaces\n"
    "shape = tiny\n"
    "d_ff = 256\n"
    "batch = 2\n"
    "row = baseline\n"
    "row = ff: feed_forward=sparse sparsity=4 batch=3\n"
    "row = wide: d_ff=512 against=ff\n";

TEST(DecodeRows, AttentionsOfBlocksAndHeadsAreOneWord) {
  const std::string head = "shape = tiny\ndecoder_layers = 4\nencoder_layers = 2\n";
  const std::vector<DecodeRow> rows =
      parse(head +
            "attention = full,banded  # GPT-3\nrow = gpt3: band_width=9\n"
            "row = mixed: attention=window:window_width=5+full,lsh normaliser=sparsemax\n");
  EXPECT_EQ(rows[0].model.attention, "full,banded");
  EXPECT_EQ(rows[1].model.attention, "window:window_width=5+full,lsh");
  EXPECT_EQ(parse(head + "row = a\n", {{"attention", "lsh,full"}})[0].model.attention, "lsh,full");
  expect_mentions(message_of([&] { parse(head + "row = a: attention=full,full,banded\n"); }),
                  {"some.cfg", "'a'", "decoder_layers 4", "3 attentions"});
  expect_mentions(message_of([&] {
                    parse(head + "row = a: attention=window:window_width=5,full window_width=9\n");
                  }),
                  {"'a'", "window_width", "sets its own"});
  // What one sets for itself alone is in the key with its name.
  const auto key = [&](const std::string& row) {
    return Parsed({"--config", "x.cfg"})
        .setting(head + "row = a: attention=" + row + "\n", "attention");
  };
  EXPECT_EQ(key("full,window:window_width=5"), "full,window:window_width=5");
  EXPECT_NE(key("full,window:window_width=5"), key("full,window:window_width=7"));
}

TEST(DecodeRows, InheritTheFileAndTheCommandLineWins) {
  const std::vector<DecodeRow> plain = parse(kText);
  ASSERT_EQ(plain.size(), 3u);
  EXPECT_EQ(plain[0].model.d_model, 32);
  EXPECT_EQ(plain[0].model.d_ff, 256);
  EXPECT_EQ(plain[0].batch, 2);
  EXPECT_EQ(plain[0].against, "baseline");
  EXPECT_EQ(plain[1].model.feed_forward, "sparse");
  EXPECT_EQ(get_field(plain[1].model, "sparsity"), "4");
  EXPECT_EQ(plain[1].batch, 3);
  EXPECT_EQ(plain[1].against, "baseline");
  EXPECT_EQ(plain[2].model.d_ff, 512);
  EXPECT_EQ(plain[2].against, "ff");
  for (const DecodeRow& row : parse(kText, {{"d_ff", "128"}, {"batch", "1"}})) {
    EXPECT_EQ(row.model.d_ff, 128);
    EXPECT_EQ(row.batch, 1);
  }
}

TEST(DecodeRows, ASizeGivenAnywhereBeatsTheShape) {
  const DecodeRow row = parse("encoder = false\nd_ff = 64\nrow = a: shape=tiny\n")[0];
  EXPECT_FALSE(row.model.encoder);
  EXPECT_EQ(row.model.d_ff, 64);
  EXPECT_EQ(row.model.d_model, 32);
}

TEST(DecodeRows, NamesFollowTheWeightType) {
  const std::string text = "shape = tiny\nrow = baseline\nrow = ff: feed_forward=sparse\n";
  const std::vector<DecodeRow> rows = parse(text, {{"weight_type", "bf16"}});
  EXPECT_EQ(rows[0].name, "baseline.bf16");
  EXPECT_EQ(rows[1].name, "ff.bf16");
  EXPECT_EQ(rows[1].against, "baseline.bf16");
  expect_mentions(message_of([] {
                    parse(
                        "shape = tiny\nrow = a: weight_type=bf16\n"
                        "row = a.bf16: weight_type=bf16\n");
                  }),
                  {"two rows", "'a.bf16'"});
}

TEST(DecodeRows, WhatIsNotUnderstoodIsRefused) {
  const auto refusal = [](const std::string& text) { return message_of([&] { parse(text); }); };
  expect_mentions(refusal("shape = tiny\nwidth = 7\nrow = a\n"),
                  {"some.cfg", "'width'", "d_model", "batch"});
  expect_mentions(refusal("shape = tiny\nrow = a: width=7\n"),
                  {"some.cfg", "row 'a'", "'width'", "d_model", "against"});
  expect_mentions(refusal("shape = tiny\nrow = a: d_ff\n"), {"row 'a'", "'d_ff'", "knob=value"});
  expect_mentions(refusal("shape = tiny\nrow = a: d_ff=many\n"), {"row 'a'", "many", "d_ff"});
  expect_mentions(refusal("shape = tiny\nrow = a: batch=-1\n"), {"row 'a'", "-1", "batch"});
  expect_mentions(refusal("shape = tiny\nrow = a: batch=17\n"), {"17", "16"});
  expect_mentions(refusal("shape = tiny\nrow = a: context=-1\n"), {"row 'a'", "context", "-1"});
  expect_mentions(refusal("shape = huge\nrow = a\n"), {"huge", "tiny", "17b"});
  expect_mentions(refusal("shape = tiny\nrow = a\nrow = a\n"), {"two rows", "'a'"});
  expect_mentions(refusal("shape = tiny\nrow = a: against=b\n"), {"'b'", "no row"});
  expect_mentions(refusal("shape = tiny\n"), {"no rows"});
  expect_mentions(refusal("shape = tiny\nrow = : d_ff=3\n"), {"no row name"});
  // Without its colon it would be another model under that name.
  expect_mentions(refusal("shape = tiny\nrow = a feed_forward=sparse\n"),
                  {"row 'a'", "feed_forward=sparse", "before its colon"});
  expect_mentions(refusal("shape = tiny\nrow = a b: d_ff=3\n"), {"row 'a'", "'b'"});
  expect_mentions(refusal("shape = tiny\nrow = a: d_ff=3 d_ff=4\n"), {"row 'a'", "'d_ff' twice"});
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
  expect_mentions(message_of([] { read_row_file("/nonexistent/x.cfg", decode_row_knobs(), {}); }),
                  {"x.cfg", "cannot be read"});
}

TEST(DecodeRows, KnobsOfWhatIsNotChosenAreRefusedInARowAndOfNoWeightElsewhere) {
  expect_mentions(message_of([] { parse("shape = tiny\nrow = a: sparsity=4\n"); }),
                  {"some.cfg", "row 'a'", "'sparsity'", "feed_forward=sparse"});
  EXPECT_EQ(parse("shape = tiny\nsparsity = 4\nrow = a\n").size(), 1u);
  const std::unique_ptr<Study> study = make_decode_study();
  const Settings dense = settings_of(parse("shape = tiny\nrow = a\n")[0]);
  const Settings sparse = settings_of(parse("shape = tiny\nrow = a: feed_forward=sparse\n")[0]);
  EXPECT_FALSE(study->counts("sparsity", dense));
  EXPECT_TRUE(study->counts("sparsity", sparse));
  for (const char* setting : {"d_ff", "batch", "protocol", "pin"}) {
    EXPECT_TRUE(study->counts(setting, dense)) << setting;
  }
}

TEST(DecodeRows, EveryConfigOfTheProjectIsValid) {
  fs::current_path(SOURCE_DIR);  // from where configs name traces
  int configs = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SOURCE_DIR) / "experiments/configs/decode")) {
    if (entry.path().extension() != ".cfg") continue;
    ++configs;
    const RowFile file = read_row_file(entry.path().string(), decode_row_knobs(), {});
    EXPECT_EQ(message_of([&] { decode_rows(file); }), "no error");
    EXPECT_EQ(file.experiment, entry.path().stem().string());
    EXPECT_FALSE(file.title.empty());
  }
  EXPECT_GE(configs, 10);
}

TEST(DecodeStudy, PointsAreRowsAtThreadCounts) {
  Parsed parsed({"--config", "x.cfg", "--rows", "ff,wide", "--threads", "3,1,3", "--protocol",
                 "paper", "--quick", "--d_ff", "64", "--encoder", "false"});
  EXPECT_EQ(parsed.options.overrides, (Settings{{"d_ff", "64"}, {"encoder", "false"}}));
  const std::vector<Point> points = parsed.points(kText);
  ASSERT_EQ(points.size(), 4u);
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].row, i < 2 ? "ff" : "wide");
    EXPECT_EQ(points[i].against, i < 2 ? "baseline" : "ff");
    EXPECT_EQ(points[i].threads, i % 2 == 0 ? 1 : 3);
    EXPECT_GT(points[i].seconds, 0);
  }
  EXPECT_GT(points[0].seconds, points[1].seconds) << "the first draws the weights";
  expect_mentions(message_of([] {
                    Parsed({"--config", "x.cfg", "--rows", "c"}).points(kText);
                  }),
                  {"'c'", "baseline, ff, wide", "some"});
}

/// What tells results apart is in the settings; how long to measure is not.
TEST(DecodeStudy, SettingsAreKnobsProtocolQuickAndPin) {
  for (const auto& [name, value] : Settings{{"batch", "2"},
                                            {"protocol", "steady"},
                                            {"quick", "false"},
                                            {"pin", "false"},
                                            {"sparsity", "8"},
                                            {"time_budget", "none"},
                                            {"against", "none"}}) {
    EXPECT_EQ(Parsed({"--config", "x.cfg"}).setting(kText, name), value) << name;
  }
  for (const auto& [name, value] :
       Settings{{"protocol", "paper"}, {"quick", "true"}, {"pin", "true"}}) {
    EXPECT_EQ(Parsed({"--config", "x.cfg", "--protocol", "paper", "--quick", "--pin"})
                  .setting(kText, name),
              value);
  }
}

TEST(DecodeStudy, QuickHasAFifthOfTheBudgetUnlessOneIsGiven) {
  const auto seconds = [](std::vector<const char*> flags) {
    flags.insert(flags.end(), {"--config", "x.cfg", "--threads", "1,2"});
    return Parsed(flags).points(kText)[1].seconds;
  };
  EXPECT_EQ(seconds({}), 20);
  EXPECT_EQ(seconds({"--quick"}), 4);
  EXPECT_EQ(seconds({"--quick", "--time-budget", "7"}), 7);
}

TEST(DecodeStudy, UnknownAndUnreadableFlagsAreRefused) {
  const auto refusal = [](std::vector<const char*> flags) {
    return message_of([&] { Parsed(flags).points(kText); });
  };
  expect_mentions(refusal({"--config", "x", "--wings", "2"}), {"wings", "--rows", "--sparsity"});
  expect_mentions(refusal({"--config", "x", "--row", "a"}), {"--row", "--rows"});
  expect_mentions(refusal({}), {"--config", "table1_800m.cfg"});
  expect_mentions(refusal({"--config", "x", "--threads", "0"}), {"'0'", "all"});
  expect_mentions(refusal({"--config", "x", "--threads", "two"}), {"'two'", "all"});
  expect_mentions(refusal({"--config", "x", "--threads", ","}), {"--threads"});
  expect_mentions(refusal({"--config", "x", "--protocol", "fast"}), {"fast", "steady", "paper"});
  expect_mentions(refusal({"--config", "x", "--time-budget", "-3"}), {"--time-budget", "-3"});
  expect_mentions(refusal({"--config", "x", "--time-budget", "long"}), {"time-budget", "long"});
  expect_mentions(refusal({"x.cfg"}), {"--help"});
  EXPECT_TRUE(Parsed({"--help"}).options.help);
}

TEST(Grouping, FamilyFirstThenWhateverFits) {
  using Groups = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(group_rows({{4, "a"}, {4, "b"}, {4, "a"}, {4, "b"}}, 8), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(group_rows({{4, "a"}, {9, "a"}, {3, "b"}, {2, "a"}}, 8), (Groups{{0, 3}, {1}, {2}}));
  EXPECT_EQ(group_rows({{4, "a"}, {9, "a"}, {1, "b"}, {2, "a"}}, 8), (Groups{{0, 3, 2}, {1}}));
  EXPECT_EQ(group_rows({}, 8), Groups{});
  EXPECT_EQ(group_rows({{1, "a"}, {~0ull, "a"}}, 8), (Groups{{0}, {1}}));
}

}  // namespace
}  // namespace scaling
