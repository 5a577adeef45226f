// Curves as a config asks for them: matched sizes, rows and their identities, and the file of their
// steps.
#include "experiments/training/curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "experiments/study/record.h"
#include "experiments/training/curve_csv.h"
#include "experiments/training/training_study.h"
#include "models/layers/feed_forward/sparse.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(SOURCE_DIR) / "experiments" / "configs" / "training";

RowFile parse_file(const std::string& text, const Settings& overrides = {}) {
  std::istringstream in(text);
  return parse_row_file(in, "some.cfg", curve_knobs(), overrides);
}

std::vector<Curve> parse(const std::string& text, const Settings& overrides = {}) {
  return curves_of(parse_file(text, overrides));
}

const std::string kSizes =
    "encoder_layers = 0\ndecoder_layers = 2\nd_model = 64\nd_ff = 512\nn_heads = 4\n"
    "max_length = 64\nvocab_size = 260\nlength = 32\nd_lowrank = 16\nmodules = 4\n";

Curve curve_named(const std::vector<Curve>& curves, const std::string& name) {
  return curve_of_row(curves, name, "some");
}

TEST(Solve, ATooCoarseStepTakesADivisorAndSaysSo) {
  const std::vector<Curve> e = parse(kSizes +
                                     "row = dense: d_ff=100\n"
                                     "row = coarse: feed_forward=sparse sparsity=64 d_lowrank=1\n");
  const Curve coarse = curve_named(e, "coarse");
  EXPECT_LT(coarse.model.options<SparseKnobs>().sparsity, 64);
  EXPECT_EQ(64 % coarse.model.options<SparseKnobs>().sparsity, 0);
  expect_mentions(coarse.solved, {"in place of 64"});
}

TEST(Solve, WhatCannotBeMatchedIsRefused) {
  expect_mentions(
      message_of([] {
        parse(kSizes +
              "row = dense: d_ff=1\nrow = wide: feed_forward=sparse sparsity=8 d_lowrank=64\n");
      }),
      {"some.cfg", "row 'wide'", "0.5 %", "solve=none"});
}

TEST(Solve, ControlsSayWhatTheyRead) {
  const std::vector<Curve> e =
      parse(kSizes +
            "row = dense\n"
            "row = iso_read_ff: solve=iso_read_ff reference_row=sparse\n"
            "row = sparse: feed_forward=sparse sparsity=8\n"
            "row = iso_read_model: solve=iso_read_model reference_row=both\n"
            "row = both: feed_forward=sparse sparsity=8 projection=mult_conv\n");
  const Curve ff = curve_named(e, "iso_read_ff"), narrow = curve_named(e, "iso_read_model");
  expect_mentions(ff.solved, {"d_ff " + std::to_string(ff.model.d_ff) + ", feed-forward reads ",
                              " weights a token ("});
  expect_mentions(narrow.solved, {"d_model " + std::to_string(narrow.model.d_model) + ", d_ff ",
                                  ", the model reads "});
  expect_mentions(message_of([] {
                    parse(kSizes +
                          "row = dense\nrow = iso: feed_forward=sparse solve=iso_read_ff "
                          "reference_row=dense\n");
                  }),
                  {"row 'iso'", "solve=iso_read_ff makes a dense control", "feed_forward=dense"});
}

TEST(Curves, RowsInheritAndTheCommandLineWins) {
  const std::vector<Curve> e =
      parse("title = A title\nseeds = 3,4\nsteps = 7\n" + kSizes +
                "row = dense\nrow = paper: feed_forward=sparse sparsity=8 solve=none steps=9\n",
            {{"batch", "2"}});
  EXPECT_EQ(e[1].seeds, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(e[0].train.steps, 7);
  EXPECT_EQ(e[1].train.steps, 9);
  EXPECT_EQ(e[1].train.batch, 2);
  EXPECT_EQ(e[1].model.d_ff, 512);
  EXPECT_EQ(e[1].solve, Solve::none);
  EXPECT_TRUE(e[0].model.decoder_only());
  EXPECT_EQ(with_seed(e[0], 4).model.seed, 4u);
}

TEST(Curves, RefusesWhatItDoesNotUnderstand) {
  const auto refusal = [](const std::string& text) {
    return message_of([&] { parse(kSizes + text); });
  };
  expect_mentions(refusal("wings = 2\nrow = a\n"), {"some.cfg", "'wings'", "d_model", "optimizer"});
  expect_mentions(refusal("row = a: wings=2\n"), {"row 'a'", "'wings'", "sparsity", "solve"});
  expect_mentions(refusal("row = a: steps=many\n"), {"row 'a'", "many"});
  expect_mentions(refusal("row = a: seed=3\n"), {"'seed'"});
  expect_mentions(refusal("row = a\nrow = b: solve=magic\n"), {"magic", "iso_read_ff"});
  expect_mentions(refusal("row = a\nrow = b: solve=iso_read_ff\n"), {"row 'b'", "reference_row"});
  expect_mentions(refusal("row = a\nrow = b: reference_row=c\n"), {"'c'", "no row"});
  expect_mentions(refusal("row = a\nrow = b: twin=a equal_reads=c\n"), {"'c'", "no other row"});
  expect_mentions(refusal("row = a\nrow = b: twin=b equal_reads=a\n"), {"'b'", "no other row"});
  expect_mentions(refusal("row = a\nrow = b: twin=a\n"), {"row 'b'", "equal_reads"});
  expect_mentions(refusal("row = a\nrow = b: reference_row=c\nrow = c: reference_row=b\n"),
                  {"waits for it"});
  expect_mentions(refusal("row = a\nrow = a\n"), {"two rows", "'a'"});
  expect_mentions(refusal("row = a: length=100\n"), {"max_length", "64", "100"});
  // Room for the model's longest text is none for what is trained.
  expect_mentions(refusal("row = a: attention=bigbird bigbird_block=48\n"),
                  {"row 'a'", "32 positions", "bigbird_block 48"});
  expect_mentions(refusal("row = a: attention=routing routing_clusters=40\n"),
                  {"row 'a'", "32 positions", "routing_clusters 40"});
  expect_mentions(refusal("row = a: task=span_corruption\n"), {"encoder"});
  expect_mentions(refusal("seeds = one\nrow = a\n"), {"'one'", "seed"});
  expect_mentions(message_of([] { read_row_file("/nonexistent/x.cfg", curve_knobs(), {}); }),
                  {"cannot be read"});
}

TEST(Curves, APlanNamesEveryRowAndItsContrast) {
  EXPECT_EQ(planned(parse(kSizes +
                          "row = a\nrow = b: twin=a equal_reads=c\nrow = c: solve=none d_ff=64\n")),
            "a,b:a:c,c");
}

TEST(Curves, EveryTrainingConfigOfTheProjectIsValid) {
  int configs = 0;
  std::set<std::string> ids;
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".cfg") continue;
    ++configs;
    RowFile file;
    EXPECT_EQ(message_of([&] {
                file = read_row_file(entry.path().string(), curve_knobs(), {});
                curves_of(file);
              }),
              "no error");
    EXPECT_EQ(file.experiment, entry.path().stem().string());
    EXPECT_FALSE(file.title.empty());
    EXPECT_TRUE(ids.insert(file.id).second) << file.id;
    EXPECT_FALSE(file.id.empty());
  }
  EXPECT_GE(configs, 14);
}

TEST(Curves, IdentitiesFollowSettingsAndNotNames) {
  TrainingStudy study;
  RunOptions options;
  options.dry_run = true;
  options.threads = {2};
  const RowFile file = parse_file(kSizes +
                                  "seeds = 1,2\nrow = dense\nrow = same\nrow = other: steps=9\n"
                                  "row = moved: corpus=a.txt validation=b.txt cache=c\n");
  std::vector<Point> points = study.points(file, options);
  ASSERT_EQ(points.size(), 8u);  // seed after seed
  const Identity identity(study, Provenance{}, {});
  const std::string dense = identity.text(points[0]);
  EXPECT_EQ(identity.text(points[1]), dense);
  EXPECT_NE(identity.text(points[2]), dense);
  // A text's content counts, not its place.
  EXPECT_EQ(identity.text(points[3]), dense);
  EXPECT_NE(identity.text(points[4]), dense);
  Point other = points[0];
  other.threads = 1;
  EXPECT_NE(identity.text(other), dense);
  other = points[0];
  ASSERT_EQ(other.settings.back().first, "data");
  other.settings.back().second = "another text";
  EXPECT_NE(identity.text(other), dense);
  // What else was planned does not count.
  other = points[0];
  const auto plan = std::find_if(other.settings.begin(), other.settings.end(),
                                 [](const auto& one) { return one.first == kPlannedSetting; });
  ASSERT_NE(plan, other.settings.end());
  EXPECT_EQ(plan->second, "dense,same,other,moved");
  plan->second = "dense";
  EXPECT_EQ(identity.text(other), dense);
}

/// A knob of a layer that a row does not have is no part of its curve, and whatever older records
/// say of it, they finish the point.
TEST(Curves, KnobsOfLayersThatARowLacksDoNotCount) {
  TrainingStudy study;
  RunOptions options;
  options.dry_run = true;
  options.threads = {2};
  const RowFile file = parse_file(kSizes +
                                  "row = dense\nrow = same: sparsity=32\n"
                                  "row = sparse: feed_forward=sparse sparsity=8 solve=none\n"
                                  "row = other: feed_forward=sparse sparsity=32 solve=none\n");
  const std::vector<Point> points = study.points(file, options);
  ASSERT_EQ(points.size(), 4u);
  const Identity identity(study, Provenance{}, {});
  EXPECT_EQ(identity.text(points[0]), identity.text(points[1]));
  EXPECT_NE(identity.text(points[2]), identity.text(points[3]));
  for (const Point& point : points) {
    Record r;
    r.study = "training";
    r.threads = point.threads;
    r.seed = point.seed;
    r.metric = kClosingCurveMetric;
    r.sources = identity.sources();
    for (const auto& [name, value] : point.settings) r.config[name] = typed_value(value);
    EXPECT_TRUE(identity.is_finished({r}, point)) << point.row;
    Record failed = r;
    failed.status = Status::failed;
    Record skipped = r;
    skipped.status = Status::skipped;
    EXPECT_FALSE(identity.is_finished({r, failed}, point)) << "it fails since";
    EXPECT_TRUE(identity.is_finished({failed, r, skipped}, point)) << "it does not any more";
    r.config["sparsity"] = 64;
    EXPECT_EQ(identity.is_finished({r}, point), r.config["feed_forward"] == "dense") << point.row;
  }
}

TEST(CurveCsv, AContinuedCurveHasEachStepOnce) {
  const Folder folder;
  const std::string path = folder / "a/b.csv";
  TrainReport report;
  Evaluation evaluation;
  evaluation.log_perplexity = 1.5;
  {
    CurveCsv csv(path, 0);
    for (report.step = 1; report.step <= 4; ++report.step) {
      report.evaluation = report.step % 2 ? nullptr : &evaluation;
      csv.append(report);
    }
  }
  std::ofstream(path, std::ios::app) << "5,0.1";
  CurveCsv again(path, 3);
  report.step = 4;
  again.append(report);
  std::istringstream lines(contents(path));
  std::string line, steps;
  while (std::getline(lines, line)) {
    steps += line.substr(0, line.find(',')) + " ";
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 8) << line;
  }
  EXPECT_EQ(steps, "step 1 2 3 4 ");
}

}  // namespace
}  // namespace scaling
