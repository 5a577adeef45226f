// Spectra of attention matrices: the driver on checkpoints of a few steps.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "experiments/study/record.h"
#include "models/sparsefinder/attention_tensor.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

/// Trained once for all tests: a model of entmax, one of softmax, one that sees a window, one of
/// two normalisers.
class SpectrumDriver : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    for (const std::string knobs : {"", "--normaliser softmax", "--attention window",
                                    "--attention full:normaliser=sparsemax,full"}) {
      const std::string results = *folder_ / ("trained" + std::to_string(trained_++));
      const Outcome outcome = run_driver(
          "perplexity", "--config '" + std::string(SOURCE_DIR) +
                            "/experiments/configs/training/sparsefinder_tiny.cfg' --rows s_lm "
                            "--threads 1 --results '" +
                            results + "' " + knobs);
      ASSERT_EQ(outcome.status, 0) << outcome.text;
    }
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string arguments(int model, const std::string& results) {
    return "--checkpoint '" +
           (*folder_ / ("trained" + std::to_string(model) +
                        "/checkpoints/sparsefinder_tiny/s_lm.1/latest.ckpt")) +
           "' --threads 1 --quick --results '" + (*folder_ / results) + "' ";
  }
  static Folder* folder_;
  static inline int trained_ = 0;
};
Folder* SpectrumDriver::folder_ = nullptr;

TEST_F(SpectrumDriver, RecordsEveryLayerOnce) {
  std::map<std::string, std::map<std::string, double>> all;
  for (const int model : {0, 1}) {
    const std::string results = "spectra" + std::to_string(model);
    const Outcome outcome = run_driver("attention_spectrum", arguments(model, results));
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    const RecordFile file(*folder_ / results, "attention_spectrum");
    std::map<std::string, std::map<std::string, double>> found;
    for (const Record& r : file.records()) {
      EXPECT_EQ(r.status, Status::ok) << r.note;
      found[r.row][r.metric] = r.value;
    }
    ASSERT_EQ(found.size(), 2u);
    for (auto& [row, metrics] : found) {
      double before = 0;
      for (const char* rank : {"1", "2", "4", "8", "16", "32"}) {
        const double share = metrics.at(std::string("singular_share_") + rank);
        EXPECT_GE(share, before) << row << " " << rank;
        before = share;
      }
      EXPECT_NEAR(before, 1, 1e-9) << row;  // all 32 positions
      EXPECT_GT(metrics.at("rank_90"), 1);
      EXPECT_LE(metrics.at("rank_90"), 32);
    }
    std::vector<std::size_t> shape;
    read_npy(*folder_ / (results + "/spectrum/s_lm.1.npy"), shape);
    EXPECT_EQ(shape, (std::vector<std::size_t>{2, 2, 32}));
    const std::string before = contents(file.path());
    EXPECT_EQ(run_driver("attention_spectrum", arguments(model, results)).status, 0);
    EXPECT_EQ(contents(file.path()), before);
    all["s_lm.1.layer1." + std::to_string(model)] = found.at("s_lm.1.layer1");
  }
  EXPECT_NE(all.at("s_lm.1.layer1.0"), all.at("s_lm.1.layer1.1"));
}

TEST_F(SpectrumDriver, UntrainedIsAnotherModel) {
  for (const char* flags : {"--rows s_lm.1.layer2", "--untrained --rows s_lm.1.untrained.layer2",
                            "--untrained --name drawn --rows drawn.layer2"}) {
    ASSERT_EQ(run_driver("attention_spectrum", arguments(1, "untrained") + flags).status, 0);
  }
  const RecordFile file(*folder_ / "untrained", "attention_spectrum");
  std::map<std::string, double> values;
  for (const Record& r : file.records()) {
    if (r.metric == "singular_share_1") values[r.row] = r.value;
  }
  ASSERT_EQ(values.size(), 3u);
  EXPECT_NE(values.at("s_lm.1.layer2"), values.at("s_lm.1.untrained.layer2"));
  EXPECT_EQ(values.at("drawn.layer2"), values.at("s_lm.1.untrained.layer2"));
}

TEST_F(SpectrumDriver, MistakesAreRefusedInASentence) {
  const auto refused = [](const std::string& all, const std::vector<std::string>& words) {
    const Outcome outcome = run_driver("attention_spectrum", all);
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    expect_mentions(outcome.text, words);
  };
  refused("", {"--checkpoint"});
  refused(arguments(2, "x"), {"window", "every pair", "attention=full"});
  const Outcome begun =
      run_driver("perplexity",
                 "--config '" + std::string(SOURCE_DIR) +
                     "/experiments/configs/training/sparsefinder_tiny.cfg' --rows s_lm "
                     "--threads 1 --init_from '" +
                     (*folder_ / "trained0/checkpoints/sparsefinder_tiny/s_lm.1/latest.ckpt") +
                     "' --results '" + (*folder_ / ("trained" + std::to_string(trained_))) + "'");
  ASSERT_EQ(begun.status, 0) << begun.text;
  refused(arguments(trained_, "x") + "--untrained", {"init_from", "leave out --untrained"});
  refused(arguments(3, "x"), {"full:normaliser=sparsemax,full", "one normaliser for all"});
  refused(arguments(1, "x") + "--sequences 0", {"sequences", "0"});
  refused(arguments(1, "x") + "--rows s_lm.1.layer3", {"layer3", "s_lm.1.layer1"});
  // What Sparsefinder needs is more.
  const Outcome sparse = run_driver("sparsefinder", arguments(1, "x"));
  EXPECT_EQ(sparse.status, 2) << sparse.text;
  expect_mentions(sparse.text, {"softmax", "normaliser=entmax15"});
}

}  // namespace
}  // namespace scaling
