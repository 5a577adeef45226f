// The built `generate` as a user meets it: text from a checkpoint, and sentences for mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/training/checkpoint.h"
#include "models/transformer/transformer.h"
#include "tests/experiments/driver_run.h"
#include "tests/experiments/harness_helpers.h"

namespace scaling {
namespace {

Outcome generate(const std::string& arguments) { return run_program("apps/generate", arguments); }

/// An untrained model of bytes.
std::string checkpoint_of(const Folder& folder, std::int64_t encoder_layers,
                          const std::string& tokenizer = "bytes") {
  ModelConfig config = config_of_shape("tiny");
  config.vocab_size = 320;
  config.encoder_layers = encoder_layers;
  config.feed_forward = "sparse";
  Transformer model(config);
  Team team(1);
  model.allocate_for_training(team);
  CheckpointInfo info;
  info.step = 7;
  info.model = config;
  info.training =
      "{\"tokenizer\": \"" + tokenizer + "\", \"tokenizer_model\": \"/nowhere/m.model\"}";
  const std::string path = folder / (tokenizer + std::to_string(encoder_layers) + ".ckpt");
  save_checkpoint(path, info, weight_arrays(model.parameters()));
  return path;
}

TEST(Generate, ContinuesAPromptTheSameWayForTheSameSeed) {
  const Folder folder;
  const std::string file = "--checkpoint '" + checkpoint_of(folder, 0) + "' --prompt 'Once upon' ";
  const Outcome greedy = generate(file + "--tokens 20 --threads 1");
  ASSERT_EQ(greedy.status, 0) << greedy.text;
  expect_mentions(greedy.text, {"Once upon", " tokens, ", "step 7"});
  const auto drawn = [&](const std::string& more) {
    const std::string text = generate(file + "--temperature 1 --threads 1 " + more).text;
    return text.substr(0, text.find(" tokens, "));  // the line of times differs
  };
  EXPECT_EQ(drawn("--seed 1"), drawn("--seed 1"));
  EXPECT_NE(drawn("--seed 1"), drawn("--seed 2"));
  EXPECT_EQ(generate(file + "--weight_type bf16 --threads 2 --tokens 1000").status, 0);
}

TEST(Generate, ReadsASourceWithBlanks) {
  const Folder folder;
  const std::string file = "--checkpoint '" + checkpoint_of(folder, 1) + "' --threads 1 ";
  const Outcome outcome = generate(file + "--source 'The ___ fox ___.' --tokens 8");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  expect_mentions(outcome.text, {" tokens, "});
}

TEST(Generate, MistakesExitWithTwoAndASentence) {
  const Folder folder;
  const std::string decoder = "--checkpoint '" + checkpoint_of(folder, 0) + "' ";
  const std::string both = "--checkpoint '" + checkpoint_of(folder, 1) + "' ";
  const std::string pieces = "--checkpoint '" + checkpoint_of(folder, 0, "sentencepiece") + "' ";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"", "--checkpoint"},
      {"--wings", "known are"},
      {"--checkpoint /nonexistent.ckpt", "does not exist"},
      {decoder + "--tokens 0", "--tokens is 0"},
      {decoder + "--temperature -1", "--temperature"},
      {decoder + "--source x", "no encoder"},
      {decoder + "--kernels nonsense", "nonsense"},
      {decoder + "--prompt " + std::string(200, 'x'), "200 tokens"},
      {both, "--source"},
      {pieces, "--tokenizer FILE"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = generate(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << ": " << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
}

}  // namespace
}  // namespace scaling
