// The driver of the recall of LSH attention, and the recall itself where it is known.
#include <gtest/gtest.h>

#include <set>

#include "experiments/attention/recall.h"
#include "experiments/study/record.h"
#include "models/layers/catalog.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

TEST(AttentionRecallDriver, RecordsEveryChunkAndRoundOnce) {
  const Folder folder;
  const std::string arguments = "--config '" + std::string(SOURCE_DIR) +
                                "/experiments/configs/attention/attention_recall.cfg' --threads 1 "
                                "--d_model 16 --n_heads 2 --length 48 --chunks 4,8 --rounds 1,3 "
                                "--results '" +
                                folder.path() + "'";
  const Outcome first = run_driver("attention_recall", arguments);
  ASSERT_EQ(first.status, 0) << first.text;
  const RecordFile file(folder.path(), "attention_recall");
  std::set<std::string> found, expected;
  for (const Record& r : file.records()) found.insert(r.row + " " + r.metric);
  for (const std::string distribution : {"random", "clustered"}) {
    for (const char* setting : {"_c4_r1", "_c4_r3", "_c8_r1", "_c8_r3"}) {
      for (const char* metric : {" recall", " density"}) {
        expected.insert(distribution + setting + metric);
      }
    }
  }
  EXPECT_EQ(found, expected);
  const std::string before = contents(file.path());
  EXPECT_EQ(run_driver("attention_recall", arguments).status, 0);
  EXPECT_EQ(contents(file.path()), before);
  const Outcome mistake = run_driver("attention_recall", arguments + " --rounds 0");
  EXPECT_EQ(mistake.status, 2);
}

ModelConfig setting(std::int64_t chunk, std::int64_t rounds) {
  ModelConfig model;
  set_field(model, "d_model", "16");
  set_field(model, "n_heads", "2");
  set_field(model, "attention", "lsh");
  set_field(model, "lsh_chunk", std::to_string(chunk));
  set_field(model, "lsh_rounds", std::to_string(rounds));
  return model;
}

TEST(AttentionRecall, IsOneWhereEverythingIsInView) {
  const auto found = measure_recall("random", 40, {setting(40, 1), setting(80, 2)}, 1);
  for (const Recall& r : found) {
    ASSERT_EQ(r.recall.size(), 2u);
    for (const double value : r.recall) EXPECT_NEAR(value, 1, 1e-5);
    for (const double value : r.density) EXPECT_EQ(value, 1);
  }
}

TEST(AttentionRecall, GrowsWithRoundsAndBeatsChanceOnClusters) {
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / double(values.size());
  };
  ModelConfig wide = setting(32, 1);
  wide.d_model = 128;
  ModelConfig often = wide;
  set_field(often, "lsh_rounds", "4");
  for (const char* distribution : kDistributions) {
    const auto found = measure_recall(distribution, 512, {wide, often}, 1);
    EXPECT_GT(mean(found[1].recall), mean(found[0].recall)) << distribution;
    EXPECT_GT(mean(found[1].density), mean(found[0].density)) << distribution;
    EXPECT_GT(mean(found[0].recall), mean(found[0].density)) << distribution;
  }
  const auto clustered = measure_recall("clustered", 512, {often}, 1);
  EXPECT_GT(mean(clustered[0].recall), 2 * mean(clustered[0].density));
  expect_mentions(message_of([&] { measure_recall("fractal", 8, {wide}, 1); }),
                  {"'fractal'", "random, clustered"});
}

}  // namespace
}  // namespace scaling
