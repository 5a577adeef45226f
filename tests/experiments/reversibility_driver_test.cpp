// The driver `reversibility` as a user meets it: what it records, what it refuses, that it resumes;
// and processes that measure.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <new>

#include "experiments/instruments/child_process.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/record.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

const std::string kConfig =
    std::string(SOURCE_DIR) + "/experiments/configs/stacks/reversibility.cfg";
const std::string kSmall = " --d_model 32 --d_ff 64 --max_length 32 --n_heads 2 --vocab_size 32";

Outcome run_driver(const std::string& arguments) {
  return scaling::run_driver("reversibility", arguments);
}

std::string smoke(const Folder& folder, const std::string& more) {
  return "--config '" + kConfig + "' --quick --threads 1 --results '" + folder.path() + "'" +
         kSmall + " " + more;
}

/// By row and metric.
struct Values : std::map<std::pair<std::string, std::string>, double> {
  double of(const std::string& row, const std::string& metric) const { return at({row, metric}); }
};

Values values_in(const Folder& folder) {
  Values values;
  const RecordFile file(folder.path(), "reversibility");
  for (const Record& r : file.records()) {
    EXPECT_EQ(r.status, Status::ok) << r.row << " " << r.metric << ": " << r.note;
    EXPECT_TRUE(std::isfinite(r.value)) << r.row << " " << r.metric;
    values[{r.row, r.metric}] = r.value;
  }
  return values;
}

TEST(Reversibility, RecordsMemoryAndStepsAndResumes) {
  const Folder folder;
  const std::string arguments =
      smoke(folder, "--depths 2,12 --batches 2,4 --rows dense_plain,dense_stored,dense_reversible");
  const Outcome first = run_driver(arguments);
  ASSERT_EQ(first.status, 0) << first.text;
  const Values values = values_in(folder);
  EXPECT_EQ(values.size(), 3u * 4 * 9);  // rows x points x metrics
  for (const std::string row : {"dense_plain", "dense_stored", "dense_reversible"}) {
    const double flops = values.of(row + "_d2_b4", "step_flops");
    EXPECT_GT(flops, 0);
    EXPECT_GT(values.of(row + "_d12_b4", "step_flops"), 4 * flops);
    EXPECT_EQ(values.of(row + "_d2_b4", "decision_bytes"), 0);
    EXPECT_GT(values.of(row + "_d2_b4", "peak_memory_bytes"),
              values.of(row + "_d2_b4", "model_bytes"));
  }
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
  const auto growth = [&](const std::string& row) {
    return values.of(row + "_d12_b4", "stack_bytes") / values.of(row + "_d2_b4", "stack_bytes");
  };
  EXPECT_LT(growth("dense_reversible"), 1.1);
  EXPECT_GT(growth("dense_plain"), 4);
  EXPECT_GT(growth("dense_stored"), 4);
  for (const auto& [key, value] : values) {
    // Less than any matrix of a pass: 64 positions of 32 numbers.
    if (key.second == "second_pass_bytes") {
      EXPECT_LT(value, 64 * 32 * 4) << key.first;
    }
  }
#endif
  const std::string before = contents(folder / "reversibility.jsonl");
  const Outcome again = run_driver(arguments);
  EXPECT_EQ(again.status, 0) << again.text;
  expect_mentions(again.text, {"already measured; --force repeats"});
  EXPECT_EQ(contents(folder / "reversibility.jsonl"), before);
}

TEST(Reversibility, DecisionsAreCountedApartAndGradientsCompared) {
  const Folder folder;
  const Outcome outcome = run_driver(smoke(
      folder, "--depths 2 --batches 4 --rows sparse_plain,sparse_reversible,replay_ff,replay_lsh"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const Values values = values_in(folder);
  // 4 x 32 positions, 64 / 16 blocks of neurons, four bytes each, in two blocks.
  EXPECT_EQ(values.of("sparse_reversible_d2_b4", "decision_bytes"), 2 * 4 * 32 * (64 / 16) * 4);
  for (const std::string row : {"replay_ff_d2_b4", "replay_lsh_d2_b4"}) {
    EXPECT_LT(values.of(row, "gradient_error"), 1e-4) << row;
    EXPECT_LT(values.of(row, "reconstruction_error"), 1e-4) << row;
  }
}

TEST(Reversibility, KnobsOfALayerThatARowDoesNotHaveDoNotTellItsResultsApart) {
  const Folder folder;
  const std::string arguments =
      smoke(folder, "--depths 2 --batches 4 --rows dense_plain,sparse_plain --repeats 1");
  ASSERT_EQ(run_driver(arguments).status, 0);
  const Outcome sparser = run_driver(arguments + " --sparsity 8");
  EXPECT_EQ(sparser.status, 0) << sparser.text;
  expect_mentions(sparser.text, {"dense_plain_d2_b4: 1 thread already measured",
                                 "sparse_plain_d2_b4: 1 thread, "});
}

TEST(Reversibility, MistakesExitWithTwoAndASentence) {
  const Folder folder;
  std::ofstream(folder / "odd.cfg") << "encoder_layers = 0\nrow = one: residual_stack=reversible\n"
                                       "row = two: residual_stack=reversible\n";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--wings", "known are"},
      {"--quick", "add --config"},
      {"--config /nonexistent.cfg", "cannot be read"},
      {smoke(folder, "--rows nobody"), "known are: dense_plain"},
      {smoke(folder, "--depths 2,none"), "'none'"},
      {smoke(folder, "--batches 0"), "'0'"},
      {smoke(folder, "--repeats 0"), "at least 1"},
      {smoke(folder, "--rows oracle_ff"), "nothing is left"},
      {smoke(folder, "--encoder_layers 1"), "encoder_layers = 0"},
      {"--config '" + folder.path() + "/odd.cfg' --threads 1", "residual_stack reversible"},
      {"--config '" + kConfig + "' --threads 1,2", "one number"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = run_driver(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "reversibility.jsonl"));
}

TEST(Reversibility, PlanHasEveryDepthAndBatchOnce) {
  const Outcome dry = run_driver("--config '" + kConfig + "' --dry-run --results /proc/none");
  EXPECT_EQ(dry.status, 0) << dry.text;
  // 6 depths and 5 batches of six rows, 6 depths of four comparisons.
  expect_mentions(dry.text, {"90 measurements", "sparse_plain_d24_b4", "dense_reversible_d6_b16",
                             "replay_lsh_d24_b4", "recompute_lsh_d24_b4"});
  EXPECT_EQ(dry.text.find("oracle"), std::string::npos);
}

TEST(ChildProcess, AnswersErrorsAndEnds) {
  EXPECT_EQ(in_child([] { return nlohmann::json{{"value", 7}}; })["value"], 7);
  const std::string large(1 << 20, 'x');
  EXPECT_EQ(in_child([&] { return nlohmann::json(large); }), large);
  expect_mentions(
      message_of([] { in_child([]() -> nlohmann::json { throw UserError("too wide"); }); }),
      {"too wide"});
  expect_mentions(message_of([] { in_child([]() -> nlohmann::json { throw std::bad_alloc(); }); }),
                  {"memory ran out"});
  EXPECT_THROW(in_child([]() -> nlohmann::json { throw Interrupted{}; }), Interrupted);
  expect_mentions(message_of([] {
                    in_child([]() -> nlohmann::json {
                      raise(SIGKILL);
                      return {};
                    });
                  }),
                  {"was ended", "memory"});
  const std::string other = message_of([] {
    in_child([]() -> nlohmann::json {
      raise(SIGTERM);
      return {};
    });
  });
  expect_mentions(other, {"was ended"});
  EXPECT_EQ(other.find("memory"), std::string::npos) << other;
  expect_mentions(message_of([] { in_child([]() -> nlohmann::json { std::_Exit(3); }); }),
                  {"without an answer"});
  EXPECT_EQ(in_child([] { return nlohmann::json("\xff"); }), "\xef\xbf\xbd") << "no UTF-8";
}

}  // namespace
}  // namespace scaling
