// The driver of Sparsefinder's offline half: from a checkpoint that a training run wrote to
// records, once each, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "experiments/sparsefinder/methods.h"
#include "experiments/study/record.h"
#include "models/knobs.h"
#include "models/sparsefinder/attention_tensor.h"
#include "models/sparsefinder/scores.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

/// Trained once for all tests.
class SparsefinderDriver : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    const Outcome trained = run_driver(
        "perplexity", "--config '" + std::string(SOURCE_DIR) +
                          "/experiments/configs/training/sparsefinder_tiny.cfg' --threads 1 "
                          "--results '" +
                          folder_->path() + "'");
    ASSERT_EQ(trained.status, 0) << trained.text;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string checkpoint(const std::string& teacher) {
    return *folder_ / ("checkpoints/sparsefinder_tiny/" + teacher + ".1/latest.ckpt");
  }
  static std::string arguments(const std::string& teacher) {
    return "--checkpoint '" + checkpoint(teacher) +
           "' --quick --sequences 5 --training_sequences 6 --cluster_points 256 "
           "--projection_epochs 2 --draws 50 --results '" +
           folder_->path() + "' --threads 2 ";
  }
  static Folder* folder_;
};
Folder* SparsefinderDriver::folder_ = nullptr;

TEST_F(SparsefinderDriver, RecordsEveryMethodOnce) {
  for (const std::string teacher : {"s_lm", "s_mlm"}) {
    const Outcome first = run_driver("sparsefinder", arguments(teacher));
    ASSERT_EQ(first.status, 0) << first.text;
    const RecordFile file(folder_->path(), "sparsefinder");
    std::map<std::string, std::set<std::string>> metrics;
    std::map<std::string, const Record*> closing;
    for (const Record& r : file.records()) {
      if (r.row.rfind(teacher + ".1.", 0) != 0) continue;
      metrics[r.row].insert(r.metric);
      if (r.metric == "area" || r.metric == "gold_sparsity") closing[r.row] = &r;
      if (r.metric != "recall") continue;
      // Of each configuration a row a window: nothing is found without sparsity's price.
      EXPECT_EQ(r.samples.at("columns").size(), 1 + kScoreFields + 6);
      double before = -1, sparsity = 2;
      for (const auto& row : r.samples.at("rows")) {
        ASSERT_EQ(row.size(), r.samples.at("columns").size());
        EXPECT_GE(row[1].get<double>(), before);
        EXPECT_LE(row[2].get<double>(), sparsity);
        before = row[1];
        sparsity = row[2];
      }
    }
    EXPECT_EQ(metrics.size(), 1 + all_methods().size());
    for (const auto& [row, found] : metrics) {
      ASSERT_TRUE(closing.count(row)) << row;
      const Record& last = *closing.at(row);
      EXPECT_GE(last.value, 0) << row;
      EXPECT_LE(last.value, 1) << row;
      EXPECT_TRUE(found.count("sweep_s")) << row;
      if (last.metric == "gold_sparsity") continue;
      EXPECT_TRUE(found.count("recall_at_90") && found.count("mass_recall_at_gold")) << row;
      EXPECT_LE(last.config.at("area_low").get<double>(), last.value + 1e-6);
      EXPECT_GE(last.config.at("area_high").get<double>(), last.value - 1e-6);
    }
    const auto area = [&](const std::string& method) {
      return closing.at(teacher + ".1." + method)->value;
    };
    EXPECT_GE(area("oracle"), area("random_graph"));
    std::vector<std::size_t> shape;
    read_npy(*folder_ / ("sparsefinder/" + teacher + ".1.kmeans.npy"), shape);
    EXPECT_EQ(shape.size(), 3u);
    EXPECT_EQ(shape[1], 5u);
    EXPECT_EQ(shape[2], kScoreFields);

    const std::string before = contents(file.path());
    EXPECT_EQ(run_driver("sparsefinder", arguments(teacher)).status, 0);
    EXPECT_EQ(contents(file.path()), before);
  }
}

TEST_F(SparsefinderDriver, TheSameWhateverTheThreads) {
  std::vector<std::string> found;
  for (const char* threads : {"1", "2"}) {
    const std::string results = *folder_ / (std::string("threads") + threads);
    const Outcome outcome =
        run_driver("sparsefinder", arguments("s_lm") + "--methods kmeans,sim_routing,distance_pca");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    const Outcome other = run_driver(
        "sparsefinder", "--checkpoint '" + checkpoint("s_lm") +
                            "' --sequences 4 --training_sequences 4 --cluster_points 64 --draws 9 "
                            "--projection_epochs 1 --methods kmeans,sim_routing,distance_pca "
                            "--threads " +
                            threads + " --results '" + results + "'");
    ASSERT_EQ(other.status, 0) << other.text;
    found.push_back(contents(results + "/sparsefinder/s_lm.1.kmeans.npy") +
                    contents(results + "/sparsefinder/s_lm.1.sim_routing.npy") +
                    contents(results + "/sparsefinder/s_lm.1.distance_pca.npy"));
  }
  EXPECT_GT(found[0].size(), 1000u);
  EXPECT_EQ(found[0], found[1]);
}

TEST_F(SparsefinderDriver, RunsTheModelWithPredictedGraphs) {
  const std::string results = *folder_ / "online";
  const Outcome outcome =
      run_driver("sparsefinder", "--checkpoint '" + checkpoint("s_lm") +
                                     "' --sequences 4 --training_sequences 4 --cluster_points 64 "
                                     "--projection_epochs 1 --draws 9 --online 3 "
                                     "--methods distance,sim_window --threads 2 --results '" +
                                     results + "'");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const RecordFile file(results, "sparsefinder");
  std::map<std::string, int> online;
  double full = 0, gold = 1, least = 1;  // sparsities
  for (const Record& r : file.records()) {
    if (r.metric == "gold_sparsity") gold = r.config.at("mean_gold_sparsity").get<double>();
    if (r.metric == "online_gold_difference" || r.metric == "online_gold_logits") {
      EXPECT_LT(r.value, 1e-5) << r.metric;
    }
    if (r.metric != "online_log_perplexity") continue;
    ++online[r.row];
    EXPECT_EQ(r.samples.at("columns").size(), 2 + kScoreFields);
    EXPECT_EQ(r.samples.at("rows").size(), 3u);
    EXPECT_GT(r.value, 0);
    if (r.row == "s_lm.1.gold") {
      full = r.value;
      for (const auto& row : r.samples.at("rows")) EXPECT_EQ(row[2].get<double>(), 1);
    } else {
      least = std::min(least, r.config.at("offline_sparsity").get<double>());
    }
  }
  EXPECT_GE(least, std::min(0.5, gold)) << "of no stratum, nor as sparse as the gold graphs";
  EXPECT_GT(full, 0);
  EXPECT_EQ(online["s_lm.1.gold"], 1);
  for (const char* method : {"distance", "sim_window"}) {
    EXPECT_GE(online[std::string("s_lm.1.") + method], 1);
    EXPECT_LE(online[std::string("s_lm.1.") + method], 13);
  }
}

/// What predicts by itself has the loss of what is masked, and decodes.
TEST_F(SparsefinderDriver, NativeModelsAreTheMaskedOnes) {
  const std::string results = *folder_ / "native", models = *folder_ / "models";
  for (const auto& [teacher, methods] :
       {std::pair("s_lm", "distance,quantization,kmeans"), std::pair("s_mlm", "quantization")}) {
    const Outcome outcome =
        run_driver("sparsefinder", "--checkpoint '" + checkpoint(teacher) +
                                       "' --sequences 4 --training_sequences 4 --cluster_points "
                                       "64 --projection_epochs 1 --draws 9 --online 3 --methods " +
                                       methods + " --models '" + models +
                                       "' --threads 2 --results '" + results + "'");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  const RecordFile file(results, "sparsefinder");
  std::map<std::string, int> found;
  for (const Record& r : file.records()) {
    if (r.metric != "native_difference") continue;
    ++found[r.row];
    EXPECT_LT(r.value, 1e-3) << r.row;
  }
  EXPECT_GE(found["s_lm.1.distance"], 1);
  EXPECT_GE(found["s_lm.1.kmeans"], 1);
  EXPECT_GE(found["s_mlm.1.quantization"], 1);
  EXPECT_EQ(found.size(), 3u);  // no causal model decides by ranks among all positions
  int decoded = 0;
  for (const auto& entry : fs::directory_iterator(models)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("s_lm.1.", 0) != 0) continue;
    const Outcome text = run_program(
        "apps/generate", "--checkpoint '" + entry.path().string() + "' --prompt a --tokens 20");
    EXPECT_EQ(text.status, 0) << text.text;
    ++decoded;
  }
  EXPECT_GE(decoded, 2);
}

/// What is timed are the graphs of the configurations that ran online, as sparse as offline on the
/// same sequences.
TEST_F(SparsefinderDriver, TimesTheConfigurationsThatRanOnline) {
  for (const auto& [teacher, methods] :
       {std::pair<std::string, std::string>("s_lm", "distance,kmeans"),
        {"s_mlm", "quantization"}}) {
    const std::string results = *folder_ / (teacher + "_timed"), models = results + "/models";
    const std::string common = "--checkpoint '" + checkpoint(teacher) +
                               "' --sequences 4 --models '" + models + "' --results '" + results +
                               "' ";
    const Outcome swept = run_driver(
        "sparsefinder", common +
                            "--training_sequences 4 --cluster_points 64 --projection_epochs 1 "
                            "--draws 9 --online 4 --threads 2 --methods " +
                            methods);
    ASSERT_EQ(swept.status, 0) << swept.text;
    const std::string timing = common + "--repeats 2 --time-budget 0.01";
    const Outcome timed = run_driver("sparsefinder_time", timing);
    ASSERT_EQ(timed.status, 0) << timed.text;

    std::map<std::string, std::map<std::string, double>> found;
    const RecordFile file(results, "sparsefinder_time");
    for (const Record& r : file.records()) {
      found[r.row][r.metric] = r.value;
      EXPECT_GE(r.value, 0) << r.row << " " << r.metric;
    }
    const bool decodes = teacher == "s_lm";  // the other looks at later positions
    for (const auto& [row, metrics] : found) {
      const bool is_full = row.find(".full_") != std::string::npos;
      EXPECT_GT(metrics.at("train_us_token"), 0) << row;
      EXPECT_GT(metrics.at("forward_us_token"), 0) << row;
      EXPECT_EQ(metrics.count("decode_us_token"), decodes) << row;
      EXPECT_EQ(metrics.count("decode_speedup"), decodes && !is_full) << row;
      EXPECT_EQ(metrics.count("train_speedup"), !is_full) << row;
      if (is_full) {
        EXPECT_NEAR(metrics.at("sparsity"), 0, 1e-12) << row;
      }
    }
    EXPECT_TRUE(found.count(teacher + ".1.full_softmax"));
    EXPECT_TRUE(found.count(teacher + ".1.full_entmax15"));

    std::size_t compared = 0;
    std::map<std::string, double> last;
    const RecordFile sweep(results, "sparsefinder");
    for (const Record& r : sweep.records()) {
      if (r.metric != "online_log_perplexity" || !r.config.contains("offline_sparsity")) continue;
      const double wanted = r.config.at("offline_sparsity");
      // Strata rise; behind them comes the one at the gold sparsity.
      const double stratum = r.config.at("stratum");
      const std::string place = stratum <= last[r.row] ? "gold" : print_value(stratum);
      last[r.row] = stratum;
      const auto timed_row = found.find(r.row + "." + place);
      ASSERT_NE(timed_row, found.end()) << r.row << " at " << wanted;
      EXPECT_NEAR(timed_row->second.at("sparsity"), wanted, 1e-3) << timed_row->first;
      ++compared;
    }
    EXPECT_EQ(compared + 2, found.size());
    EXPECT_GE(compared, 1u);

    const std::string before = contents(file.path());
    EXPECT_EQ(run_driver("sparsefinder_time", common + "--repeats 2 --time-budget 0.02").status, 0);
    EXPECT_EQ(contents(file.path()), before);
  }
}

TEST_F(SparsefinderDriver, OtherTeachersModelsAreNotTimed) {
  const std::string models = *folder_ / "others", results = *folder_ / "refused";
  const auto refused = [&](const std::string& all, const std::vector<std::string>& words) {
    const Outcome outcome =
        run_driver("sparsefinder_time",
                   "--checkpoint '" + checkpoint("s_lm") + "' --results '" + results + "' " + all);
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    expect_mentions(outcome.text, words);
  };
  refused("--models '" + models + "'", {models, "sparsefinder --models"});
  fs::create_directories(models);
  refused("--models '" + models + "'", {models, "s_lm.1.", "--name"});
  refused("--repeats 0", {"--repeats 0", "at least one"});
  // Of a narrower model, under this one's name.
  const Outcome narrower = run_driver(
      "perplexity", "--config '" + std::string(SOURCE_DIR) +
                        "/experiments/configs/training/sparsefinder_tiny.cfg' --threads 1 --rows "
                        "s_lm --d_model 16 --steps 1 --results '" +
                        results + "'");
  ASSERT_EQ(narrower.status, 0) << narrower.text;
  fs::copy_file(results + "/checkpoints/sparsefinder_tiny/s_lm.1/latest.ckpt",
                models + "/s_lm.1.distance.0.9.safetensors");
  refused("--models '" + models + "'", {"d_model is 16", "32", "--name"});
  // As wide, but of another training.
  const Outcome shorter = run_driver(
      "perplexity", "--config '" + std::string(SOURCE_DIR) +
                        "/experiments/configs/training/sparsefinder_tiny.cfg' --threads 1 --rows "
                        "s_lm --steps 1 --results '" +
                        results + "/shorter'");
  ASSERT_EQ(shorter.status, 0) << shorter.text;
  fs::copy_file(results + "/shorter/checkpoints/sparsefinder_tiny/s_lm.1/latest.ckpt",
                models + "/s_lm.1.distance.0.9.safetensors", fs::copy_options::overwrite_existing);
  refused("--models '" + models + "'", {"another checkpoint", "step 1", "40"});
}

/// A decoder that reads a source: its own attention alone is looked at and replaced.
TEST_F(SparsefinderDriver, ATeacherOfPairsIsItsDecoder) {
  const std::string folder = *folder_ / "pairs", models = folder + "/models";
  fs::create_directories(folder);
  const char* words[] = {"ab", "cde", "f", "ghi", "jk", "lmno", "p"};
  for (const std::string name : {"train", "val"}) {
    std::ofstream source(folder + "/" + name + ".en"), target(folder + "/" + name + ".de");
    for (int i = 0; i < (name == "train" ? 400 : 60); ++i) {
      const std::string a = words[i % 7], b = words[i * i % 5], c = words[i % 3];
      source << a << " " << b << " " << c << "\n";
      target << c << " " << b << " " << a << "\n";
    }
  }
  const Outcome trained = run_driver(
      "perplexity",
      "--config '" + std::string(SOURCE_DIR) +
          "/experiments/configs/training/sparsefinder_mt.cfg' --encoder_layers 1 --decoder_layers "
          "2 --d_model 32 --d_ff 64 --n_heads 2 --vocab_size 260 --tokenizer bytes --max_length 64 "
          "--join_pairs 24 --length 64 --target_length 64 --batch 4 --steps 40 --decay_steps 40 "
          "--warmup_steps 4 --evaluate_every 40 --evaluate_batches 2 --checkpoint_every 40 "
          "--threads 1 --corpus '" +
          folder + "/train.en' --validation '" + folder + "/val.en' --results '" + folder + "'");
  ASSERT_EQ(trained.status, 0) << trained.text;
  const std::string common = "--checkpoint '" + folder +
                             "/checkpoints/sparsefinder_mt/s_mt.1/latest.ckpt' --models '" +
                             models + "' --results '" + folder + "' ";
  const std::string sweep = common +
                            "--sequences 4 --training_sequences 8 --cluster_points 64 "
                            "--projection_epochs 1 --draws 9 --online 3 --threads 2 --methods "
                            "distance,kmeans,sim_window ";
  const Outcome swept = run_driver("sparsefinder", sweep);
  ASSERT_EQ(swept.status, 0) << swept.text;
  std::map<std::string, int> found;
  const RecordFile file(folder, "sparsefinder");
  for (const Record& r : file.records()) {
    ++found[r.row + " " + r.metric];
    if (r.metric == "online_gold_difference" || r.metric == "online_gold_logits") {
      EXPECT_LT(r.value, 1e-5) << r.metric;
    }
    if (r.metric == "native_difference") {
      EXPECT_LT(r.value, 1e-3) << r.row;
    }
    if (r.metric != "online_log_perplexity") continue;
    ASSERT_EQ(r.samples.at("rows").size(), 3u);
    for (const auto& row : r.samples.at("rows")) EXPECT_EQ(row[1].get<double>(), 24) << r.row;
  }
  EXPECT_EQ(found["s_mt.1.gold online_gold_difference"], 1);
  EXPECT_EQ(found["s_mt.1.gold online_gold_logits"], 1);
  EXPECT_GE(found["s_mt.1.distance native_difference"], 1);
  EXPECT_GE(found["s_mt.1.kmeans native_difference"], 1);
  EXPECT_GE(found["s_mt.1.sim_window online_log_perplexity"], 1);

  const Outcome timed =
      run_driver("sparsefinder_time", common + "--sequences 2 --repeats 1 --time-budget 0.01");
  EXPECT_EQ(timed.status, 0) << timed.text;
  int translated = 0;
  for (const auto& entry : fs::directory_iterator(models)) {
    const Outcome text = run_program(
        "apps/generate", "--checkpoint '" + entry.path().string() + "' --source 'ab f p'");
    EXPECT_EQ(text.status, 0) << text.text;
    ++translated;
  }
  EXPECT_GE(translated, 2);
  const Outcome longer = run_driver("sparsefinder", sweep + "--length 65");
  EXPECT_EQ(longer.status, 2) << longer.text;
  expect_mentions(longer.text, {"length of 65", "target_length 64", "--length"});
  const Outcome more = run_driver("sparsefinder", sweep + "--length 60");
  EXPECT_EQ(more.status, 1) << more.text;
  expect_mentions(more.text, {"8 training sequences of 60 tokens", "the text has"});
}

TEST_F(SparsefinderDriver, DumpsWhatOthersCanRead) {
  const std::string dump = *folder_ / "dump", results = *folder_ / "dumped";
  const Outcome outcome =
      run_driver("sparsefinder", "--checkpoint '" + checkpoint("s_mlm") +
                                     "' --sequences 3 --training_sequences 3 --methods sim_window "
                                     "--threads 1 --dump '" +
                                     dump + "' --results '" + results + "'");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::vector<std::size_t> shape;
  EXPECT_EQ(read_npy(dump + "/queries.npy", shape).size(), 3u * 2 * 32 * 32);
  EXPECT_EQ(shape, (std::vector<std::size_t>{3, 2, 32, 32}));
  double sum = 0;
  for (const float p : read_npy(dump + "/probabilities.npy", shape)) sum += double(p);
  EXPECT_EQ(shape, (std::vector<std::size_t>{2, 2, 32, 32}));
  EXPECT_NEAR(sum, 2 * 2 * 32, 1e-2);
}

TEST_F(SparsefinderDriver, MistakesAreRefusedInASentence) {
  const auto refused = [](const std::string& all, const std::vector<std::string>& words) {
    const Outcome outcome = run_driver("sparsefinder", all);
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    expect_mentions(outcome.text, words);
  };
  refused("", {"--checkpoint"});
  refused(arguments("s_lm") + "--methods spindle", {"'spindle'", "distance", "sim_routing"});
  refused(arguments("s_lm") + "--length 64", {"64", "max_length 32"});
  refused(arguments("s_lm") + "--rank 17", {"17", "16"});
  refused(arguments("s_lm") + "--routing_decay 2", {"routing_decay 2", "from 0 to 1"});
  refused(arguments("s_lm") + "--routing_rounds -1", {"routing_rounds -1"});
  refused(arguments("s_lm") + "--projection_rate 1e300", {"projection_rate 1e+300"});
  refused(arguments("s_lm") + "--methods sim_longformer --length 2",
          {"'sim_longformer'", "length 2", "nothing to try"});
  std::string few = arguments("s_lm") + "--methods kmeans ";
  few.replace(few.find("--cluster_points 256"), 20, "--cluster_points 1");
  refused(few, {"'kmeans'", "cluster_points 1", "nothing to try"});
  refused(arguments("s_lm") + "--name ../x", {"--name '../x'", "'/'"});
  refused(arguments("s_lm") + "--rows spindle", {"spindle", "s_lm.1.distance"});
  const Outcome many = run_driver(
      "sparsefinder", "--checkpoint '" + checkpoint("s_lm") + "' --sequences 1000000 --results '" +
                          (*folder_ / "many") + "' --methods sim_window --threads 1");
  EXPECT_EQ(many.status, 1) << many.text;
}

}  // namespace
}  // namespace scaling
