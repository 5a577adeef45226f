// The training driver as a user meets it: configs, matched sizes, records, and curves that survive
// being killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "experiments/study/record.h"
#include "experiments/training/curve_run.h"
#include "experiments/training/curve_state.h"
#include "models/training/checkpoint.h"
#include "models/transformer/matched_sizes.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

const std::string kDriver = std::string(BINARY_DIR) + "/experiments/perplexity";
const fs::path kConfigs = fs::path(SOURCE_DIR) / "experiments" / "configs" / "training";
const std::string kTiny = (kConfigs / "tiny_curve.cfg").string();

Outcome run_driver(const std::string& arguments) {
  return scaling::run_driver("perplexity", arguments);
}

std::string tiny(const Folder& folder) {
  return "--config '" + kTiny + "' --gemm eigen --threads 2 --results '" + folder.path() + "'";
}

/// That `taken`, of base alone, has the evaluations of a row of `trained`, and no others.
void expect_same_points(const std::vector<Record>& trained, const std::string& row,
                        const std::vector<Record>& taken) {
  const auto points = [](const std::vector<Record>& records, const std::string& name) {
    std::vector<std::pair<int, double>> found;
    for (const Record& r : records) {
      if (r.metric != "evaluation") continue;
      if (r.row == name) found.emplace_back(r.config.at("step").get<int>(), r.value);
    }
    return found;
  };
  const auto theirs = points(trained, row);
  EXPECT_GE(theirs.size(), 2u);
  EXPECT_EQ(points(taken, "base"), theirs);
}

TEST(PerplexityDriver, TrainsRecordsAndResumes) {
  const Folder folder;
  const Outcome first = run_driver(tiny(folder) + " --rows dense,ff_qkv");
  ASSERT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"parameters", "ff_qkv", "match_parameters"});
  const RecordFile file(folder.path(), "tiny_curve");
  std::map<std::string, int> metrics;
  double last = 0;
  for (const Record& r : file.records()) {
    ++metrics[r.metric];
    EXPECT_EQ(r.status, Status::ok);
    EXPECT_TRUE(std::isfinite(r.value)) << r.metric;
    if (r.row == "dense" && r.metric == "evaluation" && r.config.at("step") == 60) last = r.value;
    if (r.metric == "evaluation") {
      const auto products = r.config.at("products").get<std::string>();
      EXPECT_EQ(std::string(find_gemm(products).name), products);
    }
    if (r.row == "dense" && r.metric == "log_perplexity") {
      EXPECT_EQ(r.value, last);
      EXPECT_LT(r.value, std::log(260.0));
      // What the stretches of the text lost is what all of it lost.
      double loss = 0, tokens = 0;
      ASSERT_EQ(r.samples.at("columns").dump(), "[\"loss\",\"tokens\"]");
      for (const auto& stretch : r.samples.at("rows")) {
        loss += stretch.at(0).get<double>();
        tokens += stretch.at(1).get<double>();
      }
      EXPECT_EQ(r.samples.at("rows").size(), 2u);
      EXPECT_EQ(tokens, 2.0 * 4 * 32);
      EXPECT_NEAR(loss / tokens, r.value, 1e-5);
      EXPECT_EQ(r.config.at("planned").get<std::string>(),
                "dense,ff_n4,ff_qkv,iso_read_ff,iso_read_model,hash_selector");
    }
    if (r.metric == "mfu") {
      EXPECT_GT(r.value, 0);
    }
    // Embeddings of width d start with a variance of 1 / d, tables of positions with one of 1/2.
    if (r.metric == "token_share") {
      const double d = r.config.at("d_model"), scale = r.config.at("embedding_scale");
      EXPECT_NEAR(r.value, scale * scale / d / (scale * scale / d + 0.5), 1e-6);
    }
    // The first steps are above, the last ones not.
    if (r.metric == "plateau_share") {
      EXPECT_GT(r.value, 0);
      EXPECT_LT(r.value, 1);
    }
  }
  for (const char* metric :
       {"params", "log_perplexity", "bits_per_byte", "accuracy", "tokens_per_s", "mfu",
        "peak_memory_bytes", "floor", "unigram_entropy", "plateau_share", "token_share"}) {
    EXPECT_EQ(metrics[metric], 2) << metric;
  }
  EXPECT_EQ(metrics["hard_soft_gap"], 1);
  EXPECT_GE(metrics["evaluation"], 6);
  const std::string csv = contents(folder / "curves/tiny_curve/dense.1.csv");
  EXPECT_EQ(csv.rfind("step,seconds,loss,log_perplexity,", 0), 0u);

  const std::string before = contents(file.path());
  const Outcome again = run_driver(tiny(folder) + " --rows dense,ff_qkv");
  EXPECT_EQ(again.status, 0);
  expect_mentions(again.text, {"already measured"});
  EXPECT_EQ(contents(file.path()), before);

  // The same curve under another name, in another experiment, is taken over and not trained.
  std::string text = contents(kTiny);
  text.replace(text.find("tiny_curve"), 10, "tiny_other");
  text.replace(text.find("row = dense"), 11, "row = base");
  std::ofstream(folder / "tiny_other.cfg") << text;
  const Outcome other =
      run_driver("--config '" + (folder / "tiny_other.cfg") +
                 "' --gemm eigen --threads 2 --rows base --results '" + folder.path() + "'");
  EXPECT_EQ(other.status, 0) << other.text;
  expect_mentions(other.text, {"is there as tiny_curve/dense"});
  // With what its own experiment was planned to have.
  const RecordFile taken(folder.path(), "tiny_other");
  ASSERT_FALSE(taken.records().empty());
  expect_same_points(file.records(), "dense", taken.records());
  EXPECT_EQ(taken.records().back().config.at("planned").get<std::string>(),
            "base,ff_n4,ff_qkv,iso_read_ff,iso_read_model,hash_selector");

  // So is that of another commit and machine, where its commit is accepted.
  const Folder elsewhere;
  for (const char* name : {"tiny_curve.jsonl", "curves/tiny_curve"}) {
    fs::create_directories(elsewhere / "curves");
    fs::copy(folder / name, elsewhere / name, fs::copy_options::recursive);
  }
  std::ofstream moved(elsewhere / "tiny_curve.jsonl");
  for (Record r : file.records()) {
    r.provenance.commit = "0123456789ab";
    r.provenance.dirty = false;
    r.provenance.cpu = "another";
    r.sources = r.key = "another";
    moved << to_line(r) << "\n";
  }
  moved.close();
  for (const bool accepted : {true, false}) {
    const Outcome outcome =
        run_driver("--config '" + (folder / "tiny_other.cfg") +
                   "' --gemm eigen --threads 2 --rows base --results '" + elsewhere.path() + "'" +
                   (accepted ? " --accept 01234567" : ""));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text.find("is there as tiny_curve/dense") != std::string::npos, accepted)
        << outcome.text;
    if (accepted) {
      const RecordFile accepted_ones(elsewhere.path(), "tiny_other");
      expect_same_points(file.records(), "dense", accepted_ones.records());
    }
  }
}

/// Results of more steps than asked for would pass for those of fewer.
TEST(PerplexityDriver, ACheckpointBeyondTheStepsIsRefused) {
  const Folder folder;
  const std::string command = tiny(folder) + " --rows dense --resume --steps ";
  ASSERT_EQ(run_driver(command + "4").status, 0);
  const Outcome fewer = run_driver(command + "2");
  EXPECT_NE(fewer.status, 0);
  expect_mentions(fewer.text, {"is of step 4, beyond steps 2", "--force"});
  const Outcome more = run_driver(command + "6");
  EXPECT_EQ(more.status, 0);
  expect_mentions(more.text, {"continues after step 4"});
}

TEST(PerplexityDriver, RowsWithTheSameSettingsAreRefused) {
  const Folder folder;
  std::ofstream(folder / "twice.cfg")
      << contents(kTiny) << "row = again: feed_forward=dense sparsity=64 solve=none\n";
  const Outcome outcome = run_driver("--config '" + (folder / "twice.cfg") + "' --results '" +
                                     folder.path() + "' --rows dense,again");
  EXPECT_NE(outcome.status, 0);
  expect_mentions(outcome.text, {"rows 'dense' and 'again' have the same settings", "--rows"});
}

TEST(PerplexityDriver, NumberTasksAreEvaluatedOnTrainedAndOnLongerNumbers) {
  const Folder folder;
  const std::string command = "--config '" + (kConfigs / "table4_reduced.cfg").string() +
                              "' --gemm eigen --threads 1 --batch 4 --evaluate_batches 1 "
                              "--evaluate_every 2 --seeds 1,2 --results '" +
                              folder.path() + "' --rows ";
  const std::string rows = "transformer.copy,terraformer.copy,no_sru.addition";
  const Outcome outcome = run_driver(command + rows + " --steps 3");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_mentions(outcome.text,
                  {"terraformer.copy, seed 2", "of sequences", "trained_length_accuracy"});
  const RecordFile file(folder.path(), "table4_reduced");
  std::map<std::string, int> metrics, data;
  std::map<std::string, double> parameters;
  for (const Record& r : file.records()) {
    ++metrics[r.metric];
    ++data[r.config.at("data").get<std::string>()];
    if (r.metric == "params") parameters[r.row] = r.value;
    if (r.metric != kEvaluationMetric) continue;
    for (const char* name : {"accuracy", "sequence_accuracy", "trained_length_accuracy",
                             "trained_length_sequence_accuracy"}) {
      EXPECT_GE(r.config.at(name).get<double>(), 0) << name;
    }
  }
  EXPECT_EQ(metrics["evaluation"], 12);  // of 2 steps and at the end, three rows, two seeds
  for (const char* metric :
       {"accuracy", "sequence_accuracy", "trained_length_accuracy",
        "trained_length_sequence_accuracy", "accuracy.to_4_digits",
        "sequence_accuracy.to_36_digits", "accuracy.to_38_digits", "log_perplexity", "mfu"}) {
    EXPECT_EQ(metrics[metric], 6) << metric;
  }
  EXPECT_EQ(metrics["bits_per_byte"], 0);
  EXPECT_EQ(metrics["accuracy.to_40_digits"], 0);
  // What stands in one table names its data alike, whatever the seed and the task.
  EXPECT_EQ(data.size(), 1u);
  const double target = parameters["transformer.copy"];
  for (const auto& [row, count] : parameters) {
    EXPECT_NEAR(count, target, kMatchTolerance * target) << row;
  }
}

/// A second of each objective with sentences, and its decode, which knows nothing of tasks.
TEST(PerplexityDriver, ObjectivesOfSentencesAreTrainedAndDecoded) {
  const Folder folder;
  {
    std::ofstream text(folder / "text.jsonl");
    for (int line = 0; line < 400; ++line) {
      text << "{\"text\": \"It is " << line << ". So it was. No " << line * 7 << ".\"}\n";
    }
  }
  const std::string command = tiny(folder) + " --rows dense --encoder_layers 1 --corpus '" +
                              (folder / "text.jsonl") +
                              "' --target_length 20 --learning_rate 0.01 "
                              "--decode_check --decode_tokens 100 --task ";
  std::set<std::string> data;
  for (const std::string task : {"denoising", "gap_sentences"}) {
    const Outcome refused = run_driver(command + task);
    EXPECT_NE(refused.status, 0);
    expect_mentions(refused.text, {"max_length", "32", "33"});
    // Interrupted after 30 of 60 steps.
    const Outcome begun = run_driver(command + task + " --length 31 --steps 30");
    ASSERT_EQ(begun.status, 0) << begun.text;
    const Outcome outcome = run_driver(command + task + " --length 31 --resume");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    expect_mentions(outcome.text, {"continues after step 30"});
    if (task == "gap_sentences") {
      expect_mentions(outcome.text, {"evaluated targets cut at target_length 20"});
    }
    std::map<std::string, double> metrics;
    const RecordFile file(folder.path(), "tiny_curve");
    for (const Record& r : file.records()) {
      metrics[r.metric] = r.value;
      data.insert(r.config.at("data").get<std::string>());
    }
    EXPECT_LT(metrics["log_perplexity"], 0.75 * std::log(260.0)) << task;
    EXPECT_NEAR(metrics["decode_log_perplexity.f32"], metrics["decode_reference_log_perplexity"],
                1e-4);
  }
  EXPECT_EQ(data.size(), 2u);
}

/// At every evaluation and at the end; and labels go through the decode path as other targets do.
TEST(PerplexityDriver, AnswersOfGlueAreScored) {
  const Folder folder;
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    std::ofstream table(folder / name);
    table << "Quality\t#1 String\t#2 String\n";
    for (int row = 0; row < 12; ++row) {
      table << row % 2 << "\tA\t" << (row % 2 == 1 ? "A" : "B") << "\n";
    }
  }
  const Outcome outcome = run_driver(
      tiny(folder) + " --rows dense --encoder_layers 1 --length 30 --steps 20 --corpus '" +
      (folder / "train.tsv") + "' --validation '" + (folder / "dev.tsv") +
      "' --task glue_mrpc --decode_check --decode_tokens 0");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_mentions(outcome.text,
                  {"glue_mrpc, 12 examples to train on", "(8 used", "label_accuracy ", "f1 "});
  std::map<std::string, double> metrics;
  int evaluations = 0;
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    metrics[r.metric] = r.value;
    if (r.metric != kEvaluationMetric) continue;
    ++evaluations;
    for (const char* name : {"label_accuracy", "f1"}) {
      EXPECT_GE(r.config.at(name).get<double>(), 0) << name;
      EXPECT_LE(r.config.at(name).get<double>(), 1) << name;
    }
    // Eight rows: two digits, as many bits as are right.
    EXPECT_EQ(r.config.at("items").get<int>(), 8);
    const auto right = r.config.at("right").get<std::string>();
    ASSERT_EQ(right.size(), 2u);
    EXPECT_DOUBLE_EQ(double(std::popcount(std::stoul(right, nullptr, 16))) / 8,
                     r.config.at("label_accuracy").get<double>());
  }
  EXPECT_EQ(evaluations, 1);
  for (const char* name : {"label_accuracy", "f1", "sequence_accuracy", "bits_per_byte"}) {
    EXPECT_EQ(metrics.count(name), 1u) << name;
  }
  EXPECT_NEAR(metrics["decode_log_perplexity.f32"], metrics["decode_reference_log_perplexity"],
              1e-4);
}

TEST(PerplexityDriver, SeedsOfATextNameItAlikeAndTextsDiffer) {
  const Folder folder;
  std::ofstream(folder / "letters.txt") << std::string(50000, 'a');
  const std::string command = tiny(folder) + " --rows dense --steps 2 --seeds 1,2";
  ASSERT_EQ(run_driver(command).status, 0);
  ASSERT_EQ(run_driver(command + " --batch 8").status, 0);
  ASSERT_EQ(run_driver(command + " --corpus '" + (folder / "letters.txt") + "'").status, 0);
  const RecordFile file(folder.path(), "tiny_curve");
  std::map<std::string, std::set<std::string>> keys;
  for (const Record& r : file.records()) {
    keys[r.config.at("data").get<std::string>()].insert(r.key);
  }
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys.begin()->second.size() + keys.rbegin()->second.size(), 6u);
  EXPECT_NE(keys.begin()->second.size(), keys.rbegin()->second.size());
}

TEST(PerplexityDriver, AnEditedTextIsTrainedAnewAndTheSameElsewhereIsNot) {
  const Folder folder;
  const auto train = [&](const std::string& text, const std::string& more = "") {
    return run_driver(tiny(folder) + " --rows dense --steps 2 --corpus '" + (folder / text) + "'" +
                      more);
  };
  for (const char* name : {"one.txt", "two.txt"}) {
    std::ofstream(folder / name) << std::string(50000, 'a');
  }
  const Outcome first = train("one.txt");
  ASSERT_EQ(first.status, 0) << first.text;
  // Nothing is tokenised to find that out.
  for (const char* name : {"one.txt", "two.txt"}) {
    const Outcome again = train(name, " --cache '" + (folder / "new_cache") + "'");
    EXPECT_EQ(again.status, 0) << again.text;
    expect_mentions(again.text, {"already measured"});
  }
  for (const auto& entry : fs::directory_iterator(folder / "new_cache")) {
    EXPECT_EQ(entry.path().filename().string().rfind("tokens-", 0), std::string::npos);
  }

  std::ofstream(folder / "one.txt") << std::string(50000, 'b');
  const Outcome edited = train("one.txt");
  EXPECT_EQ(edited.status, 0) << edited.text;
  EXPECT_EQ(edited.text.find("already measured"), std::string::npos) << edited.text;
  expect_mentions(edited.text, {"starts anew", "another text"});
  std::set<std::string> data, keys;
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    data.insert(r.config.at("data").get<std::string>());
    keys.insert(r.key);
  }
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(keys.size(), 2u);

  // Nor is it taken over from another experiment.
  std::ofstream(folder / "one.txt") << std::string(50000, 'c');
  std::string config = contents(kTiny);
  config.replace(config.find("tiny_curve"), 10, "tiny_other");
  std::ofstream(folder / "tiny_other.cfg") << config;
  const Outcome other = run_driver("--config '" + (folder / "tiny_other.cfg") +
                                   "' --gemm eigen --threads 2 --rows dense --steps 2 --corpus '" +
                                   (folder / "one.txt") + "' --results '" + folder.path() + "'");
  EXPECT_EQ(other.status, 0) << other.text;
  EXPECT_EQ(other.text.find("is there as"), std::string::npos) << other.text;

  // A text that is gone fails its curve and leaves the checkpoints where they are.
  fs::remove(folder / "one.txt");
  EXPECT_EQ(train("one.txt").status, 1);
  EXPECT_TRUE(fs::exists(folder / "checkpoints/tiny_curve/dense.1/latest.ckpt"));
}

TEST(PerplexityDriver, EarlierCheckpointsAreAllKept) {
  const Folder folder;
  const std::string checkpoints = folder / "checkpoints/tiny_curve/dense.1";
  for (const char* steps : {"2", "3", "3 --force", "4"}) {
    const Outcome outcome = run_driver(tiny(folder) + " --rows dense --steps " + steps);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    const bool first = std::string(steps) == "2";
    EXPECT_EQ(outcome.text.find("are kept in " + checkpoints) == std::string::npos, first);
  }
  std::string kept;
  for (const char* name : {".before", ".before2", ".before3", ""}) {
    kept += std::to_string(read_checkpoint_info(checkpoints + name + "/latest.ckpt").step) + " ";
  }
  EXPECT_EQ(kept, "2 3 3 4 ");
}

/// Settings that were mistyped once cost nothing: what they moved aside is taken back.
TEST(PerplexityDriver, CheckpointsThatOthersMovedAsideAreTakenBack) {
  const Folder folder;
  const std::string checkpoints = folder / "checkpoints/tiny_curve/dense.1";
  const auto key = [&checkpoints](const std::string& ending) {
    const std::optional<CurveState> state = read_curve_state(checkpoints + ending);
    return state ? state->key : "";
  };
  const auto run = [&folder](const std::string& steps) {
    const Outcome outcome = run_driver(tiny(folder) + " --rows dense --steps " + steps);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    // As if it had not been finished: what is on record is not trained again.
    fs::remove(folder / "tiny_curve.jsonl");
    return outcome.text;
  };
  run("2");
  const std::string first = key("");
  run("3");
  const std::string second = key("");
  run("4");
  EXPECT_NE(first, second);
  EXPECT_EQ(key(".before"), first);
  EXPECT_EQ(key(".before2"), second);
  expect_mentions(run("3"), {"goes on from its checkpoints in " + checkpoints + ".before2",
                             "kept in " + checkpoints + ".before3", "continues after step 3"});
  EXPECT_EQ(key(""), second);
  EXPECT_EQ(key(".before"), first);
}

/// Two processes that train one curve would mix their points and overwrite each other's
/// checkpoints.
TEST(PerplexityDriver, ACurveThatAnotherProcessTrainsIsLeftToIt) {
  const Folder folder;
  const std::string checkpoints = folder / "checkpoints/tiny_curve/dense.1";
  const std::string arguments = tiny(folder) + " --rows dense,ff_qkv --steps 2";
  {
    const CurveLock lock(checkpoints);
    ASSERT_TRUE(lock.held());
    const Outcome outcome = run_driver(arguments);
    EXPECT_NE(outcome.status, 0);
    expect_mentions(outcome.text, {"dense, seed 1: left out, since another process trains it",
                                   checkpoints, "repeat the command"});
    EXPECT_FALSE(fs::exists(checkpoints));
    const RecordFile file(folder.path(), "tiny_curve");
    for (const Record& r : file.records()) EXPECT_EQ(r.row, "ff_qkv");
  }
  const Outcome outcome = run_driver(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(read_checkpoint_info(checkpoints + "/latest.ckpt").step, 2);
}

TEST(PerplexityDriver, MemoryIsAskedForBeforeTheTextIsRead) {
  const Folder folder;
  const std::string config = contents(kTiny);
  std::ofstream(folder / "tiny_curve.cfg")
      << config.substr(0, config.find("row = ")) << "row = dense: d_ff=10000000000\n";
  const Outcome outcome = run_driver("--config '" + (folder / "tiny_curve.cfg") + "' --results '" +
                                     folder.path() + "'");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  expect_mentions(outcome.text, {"dense, seed 1: failed", "of memory"});
  EXPECT_FALSE(fs::exists(folder / "cache"));
}

TEST(PerplexityDriver, DryRunAndCheckRecordNothing) {
  const Folder folder;
  const Outcome dry = run_driver("--config '" + (kConfigs / "paper_800m.cfg").string() +
                                 "' --dry-run --results /proc/none");
  EXPECT_EQ(dry.status, 0) << dry.text;
  expect_mentions(dry.text, {"ff_qkv", "772,050,176 parameters", "GFLOP a step", "d_ff=6144"});
  const Outcome check = run_driver(tiny(folder) + " --rows dense,hash_selector --check");
  EXPECT_EQ(check.status, 0) << check.text;
  expect_mentions(check.text, {"dense: step 1 has loss", "hash_selector: step 1 has loss"});
  EXPECT_FALSE(fs::exists(folder / "tiny_curve.jsonl"));
}

TEST(PerplexityDriver, MistakesExitWithTwoAndASentence) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--wings", "known are"},
      {"", "--config"},
      {"--config '" + kTiny + "' --rows nobody", "known are: dense"},
      {"--config '" + kTiny + "' --threads 1,2", "give one number"},
      {"--config '" + kTiny + "' --seeds x", "no seed"},
      {"--config '" + kTiny + "' --force --resume", "one of them"},
      {"--config '" + kTiny + "' --results /proc/none", "cannot be written"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = run_driver(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    expect_mentions(outcome.text, {"error: ", words});
  }
}

TEST(PerplexityDriver, ACurveThatFailsIsRecordedAndTheOthersGoOn) {
  const Folder folder;
  const Outcome outcome = run_driver(tiny(folder) + " --rows dense --corpus /nonexistent/text");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  const RecordFile file(folder.path(), "tiny_curve");
  ASSERT_EQ(file.records().size(), 1u);
  EXPECT_EQ(file.records().front().status, Status::failed);
  expect_mentions(file.records().front().note, {"text"});
}

constexpr int kSteps = 200;

/// Starts the driver on one row; its output goes to <folder>/log, or standard error to a terminal.
pid_t start(const Folder& folder, const std::string& row, const std::vector<std::string>& more = {},
            int terminal = -1) {
  std::vector<std::string> words = {kDriver,      "--config", kTiny,
                                    "--gemm",     "eigen",    "--threads",
                                    "1",          "--steps",  std::to_string(kSteps),
                                    "--rows",     row,        "--results",
                                    folder.path()};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string log = folder / "log";
  const pid_t child = fork();
  if (child == 0) {
    if (!std::freopen(log.c_str(), "a", stdout) || !std::freopen(log.c_str(), "a", stderr)) {
      _exit(9);
    }
    if (terminal >= 0) dup2(terminal, STDERR_FILENO);
    execv(kDriver.c_str(), arguments.data());
    _exit(9);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

using Clock = std::chrono::steady_clock;

/// Waits for the child and kills it if it takes longer than that; its status.
int wait_and_kill(pid_t child, std::chrono::duration<double> most) {
  const auto began = Clock::now();
  int status = 0;
  while (Clock::now() - began < most) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(child, SIGKILL);
  return wait_for(child);
}

/// The arrays in a checkpoint, weights and optimiser's alike, as bytes: without the header, which
/// tells seconds (models/training/checkpoint.h).
std::string arrays_of(const std::string& path) {
  if (fs::path(path).extension() != ".ckpt") return "";
  const std::string bytes = contents(path);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  return bytes.substr(sizeof header + header);
}

/// file name -> arrays of every checkpoint of the row.
std::map<std::string, std::string> checkpoints(const Folder& folder, const std::string& row) {
  std::map<std::string, std::string> found;
  const fs::path in = fs::path(folder.path()) / "checkpoints" / "tiny_curve" / (row + ".1");
  for (const auto& entry : fs::directory_iterator(in)) {
    const std::string arrays = arrays_of(entry.path().string());
    if (!arrays.empty()) found[entry.path().filename().string()] = arrays;
  }
  return found;
}

void expect_same_checkpoints(const Folder& one, const Folder& other, const std::string& row) {
  const auto a = checkpoints(one, row), b = checkpoints(other, row);
  ASSERT_FALSE(a.empty());
  for (const auto& [name, bytes] : a) {
    ASSERT_TRUE(b.count(name)) << name;
    EXPECT_TRUE(bytes == b.at(name)) << name << " differs";
  }
}

double final_perplexity(const Folder& folder) {
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    if (r.metric == kClosingCurveMetric) return r.value;
  }
  return std::nan("");
}

TEST(PerplexityDriver, KilledAtRandomPointsItEndsBitForBitAsUninterrupted) {
  const std::string row = "ff_qkv";
  const Folder whole;
  auto began = Clock::now();
  ASSERT_EQ(wait_for(start(whole, row)), 0) << contents(whole / "log");
  Clock::duration took = Clock::now() - began;

#if defined(__SANITIZE_ADDRESS__)
  constexpr int kKills = 5;  // each takes seconds
#else
  constexpr int kKills = 20;
#endif
  const char* asked = std::getenv("SCALING_KILLS");
  const int kills = asked ? std::atoi(asked) : kKills;
  std::mt19937 random(20);
  const Folder cut;
  int killed = 0;
  for (int attempt = 0; attempt < 50 * kills && killed < kills; ++attempt) {
    began = Clock::now();
    const int status =
        wait_and_kill(start(cut, row), took * std::uniform_real_distribution<double>(0, 1)(random));
    if (WIFSIGNALED(status)) ++killed;
    if (WIFEXITED(status)) {
      took = Clock::now() - began;  // less than at first, when the text was not in the cache
      ASSERT_EQ(WEXITSTATUS(status), 0) << contents(cut / "log");
      if (killed < kills) {
        // Finished between two kills: the next rounds begin anew, in the same folder.
        expect_same_checkpoints(whole, cut, row);
        fs::remove_all(cut / "checkpoints");
        fs::remove(cut / "tiny_curve.jsonl");
      }
    }
  }
  EXPECT_EQ(killed, kills);
  ASSERT_EQ(wait_for(start(cut, row)), 0) << contents(cut / "log");
  expect_same_checkpoints(whole, cut, row);
  EXPECT_EQ(final_perplexity(cut), final_perplexity(whole));
  // No point of the curve twice.
  std::map<long long, int> steps;
  const RecordFile file(cut.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    if (r.metric == kEvaluationMetric) ++steps[r.config.at("step").get<long long>()];
  }
  for (const auto& [step, count] : steps) EXPECT_EQ(count, 1) << "step " << step;
}

/// Fine-tuning on labels, from another curve's weights, goes on as from its own.
TEST(PerplexityDriver, FineTuningThatIsKilledEndsBitForBitAsUninterrupted) {
  const Folder texts, before, whole, cut;
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    std::ofstream table(texts / name);
    table << "Quality\t#1 String\t#2 String\n";
    for (int row = 0; row < 12; ++row) {
      table << row % 2 << "\tA\t" << (row % 2 == 1 ? "A" : "B") << "\n";
    }
  }
  const std::string row = "dense";
  std::vector<std::string> more = {
      "--encoder_layers", "1",        "--length",          "30",           "--task",
      "glue_mrpc",        "--corpus", texts / "train.tsv", "--validation", texts / "dev.tsv"};
  ASSERT_EQ(wait_for(start(before, row, more)), 0) << contents(before / "log");
  more.insert(more.end(), {"--init_from", before / "checkpoints/tiny_curve/dense.1/best.ckpt"});
  const auto began = Clock::now();
  ASSERT_EQ(wait_for(start(whole, row, more)), 0) << contents(whole / "log");
  const Clock::duration took = Clock::now() - began;
  int killed = 0;
  for (const double share : {0.9, 0.6, 0.4, 0.3, 0.2, 0.1}) {
    if (killed < 3) killed += WIFSIGNALED(wait_and_kill(start(cut, row, more), took * share));
  }
  EXPECT_GE(killed, 1);
  ASSERT_EQ(wait_for(start(cut, row, more)), 0) << contents(cut / "log");
  expect_same_checkpoints(whole, cut, row);
  EXPECT_EQ(final_perplexity(cut), final_perplexity(whole));
}

/// Starts the row and interrupts it once `file` of the folder has grown; what the driver says.
std::string interrupt_when_grown(const Folder& folder, const std::string& row,
                                 const std::string& file,
                                 const std::vector<std::string>& more = {}) {
  const std::string watched = folder / file;
  const auto size = [&] { return fs::exists(watched) ? fs::file_size(watched) : 0; };
  fs::remove(folder / "log");
  const auto before = size();
  const pid_t child = start(folder, row, more);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && size() == before) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(child, SIGTERM);
  waitpid(child, &status, 0);
  std::string log = contents(folder / "log");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << log;
  return log;
}

TEST(PerplexityDriver, AnInterruptedCurveSaysWhereItContinues) {
  const Folder folder;
  expect_mentions(interrupt_when_grown(folder, "dense", "tiny_curve.jsonl"),
                  {"interrupted", "after step", "the same command continues"});
  // A start from no weights moves nothing aside.
  std::ofstream(folder / "none") << "";
  EXPECT_NE(wait_for(start(folder, "dense", {"--init_from", folder / "none"})), 0);
  expect_mentions(contents(folder / "log"), {"none"});
  EXPECT_EQ(contents(folder / "log").find("starts anew"), std::string::npos);
  EXPECT_EQ(wait_for(start(folder, "dense")), 0);
  expect_mentions(contents(folder / "log"), {"continues after step"});
}

TEST(PerplexityDriver, InterruptedUnderForceItSaysThatTheFlagStartsAnew) {
  const Folder folder;
  expect_mentions(interrupt_when_grown(folder, "dense", "tiny_curve.jsonl", {"--force"}),
                  {"interrupted", "drop it to continue"});
  EXPECT_EQ(wait_for(start(folder, "dense")), 0);
  expect_mentions(contents(folder / "log"), {"continues after step"});
  const std::string curve = "checkpoints/tiny_curve/dense.1/best.ckpt";
  fs::remove(folder / curve);
  expect_mentions(interrupt_when_grown(folder, "dense", curve, {"--force"}),
                  {"interrupted", "earlier result stands"});
}

void replace_all(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = contents(path);
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  std::ofstream(path) << text;
}

TEST(PerplexityDriver, WhatAnotherCommitBeganIsContinuedUnderOneKey) {
  const Folder folder;
  interrupt_when_grown(folder, "dense", "tiny_curve.jsonl");
  const std::string curve = folder / "checkpoints/tiny_curve/dense.1";
  const auto state = read_curve_state(curve);
  ASSERT_TRUE(state.has_value());
  // As if another commit had done that.
  const std::string theirs = "0123456789abcdef";
  replace_all(folder / "tiny_curve.jsonl", state->key, theirs);
  write_curve_state(curve, {theirs, "another", state->gemm});

  ASSERT_EQ(wait_for(start(folder, "dense", {"--resume"})), 0) << contents(folder / "log");
  expect_mentions(contents(folder / "log"), {"continues after step"});
  EXPECT_EQ(read_curve_state(curve)->key, state->key);
  std::map<std::int64_t, int> steps;
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    if (r.key == state->key && r.metric == kEvaluationMetric) ++steps[r.config.at("step")];
    if (r.metric == kClosingCurveMetric) {
      EXPECT_EQ(r.key, state->key);
      expect_mentions(r.note, {"begun at commit another"});
    }
  }
  // All of the curve's points stand together, as in its table.
  std::map<std::int64_t, int> expected;
  for (int step = 20; step <= kSteps; step += 20) expected[step] = 1;
  EXPECT_EQ(steps, expected);
  ASSERT_EQ(wait_for(start(folder, "dense")), 0);
  expect_mentions(contents(folder / "log"), {"already measured"});
  EXPECT_FALSE(fs::exists(curve + ".before"));
}

TEST(PerplexityDriver, TheLiveLineTellsPerplexityAndSpeed) {
  const Folder folder;
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const winsize size{24, 100, 0, 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const pid_t child = start(folder, "dense", {}, end);
  close(end);
  std::string shown;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;) {
    shown.append(buffer, std::size_t(got));
  }
  close(terminal);
  ASSERT_EQ(wait_for(child), 0) << shown;
  EXPECT_TRUE(std::regex_search(
      shown,
      std::regex(
          "dense\\.1 step [0-9]+/200, loss [0-9.]+, log-perplexity [0-9.]+, [0-9]+ tokens/s")))
      << shown;
}

}  // namespace
}  // namespace scaling
