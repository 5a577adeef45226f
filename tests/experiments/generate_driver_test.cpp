// The built `generate` as a user meets it: text from a checkpoint, and sentences for mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/training/checkpoint.h"
#include "models/transformer/transformer.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

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

/// What was generated, without the lines about it, of which the first begins so.
std::string text_before(const Outcome& outcome, const std::string& line) {
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const std::size_t at = outcome.text.find(line);
  EXPECT_NE(at, std::string::npos) << "no '" << line << "' in " << outcome.text;
  return outcome.text.substr(0, outcome.text.rfind('\n', at));
}

TEST(Generate, SearchesForTheLikeliestText) {
  const Folder folder;
  const std::string file =
      "--checkpoint '" + checkpoint_of(folder, 0) + "' --prompt 'Once upon' --threads 2 ";
  const std::string greedy = text_before(generate(file + "--tokens 20"), " tokens, ");
  EXPECT_EQ(greedy.rfind("Once upon", 0), 0u) << greedy;
  EXPECT_GT(greedy.size(), std::string("Once upon").size());
  EXPECT_EQ(text_before(generate(file + "--tokens 20 --beam 1"), "beam of 1: score "), greedy);
  const std::string search = file + "--tokens 20 --beam 4 --length_penalty power --alpha 1.2 ";
  const std::string found = text_before(generate(search), "beam of 4: score ");
  EXPECT_EQ(text_before(generate(search), "beam of 4: score "), found);
  expect_mentions(generate(search + "--block_trigrams").text,
                  {"Once upon", "log-probability -", " tokens, "});
  const Outcome longest = generate(file + "--beam 2 --tokens 1000");
  EXPECT_EQ(longest.status, 0) << longest.text;
  expect_mentions(longest.text, {"texts of a beam search end after 64 tokens"});
  const std::string both = "--checkpoint '" + checkpoint_of(folder, 1) + "' --tokens 8 ";
  const Outcome read = generate(both + "--source 'The ___ fox.' --beam 3 --length_penalty gnmt");
  EXPECT_EQ(read.status, 0) << read.text;
  expect_mentions(read.text, {"beam of 3: score -"});
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
      {decoder + "--top_k 2", "add --temperature 1"},
      {decoder + "--top_k 2 --beam 4", "leave it out"},
      {decoder + "--temperature 1 --top_k -1", "--top_k is -1"},
      {decoder + "--cue x", "--cue is for a file of sources"},
      {decoder + "--beam 17", "--beam is 17"},
      {decoder + "--beam -1", "[0, 16]"},
      {decoder + "--beam 4 --temperature 1", "draws tokens"},
      {decoder + "--length_penalty gnmt", "--length_penalty is for a beam search"},
      {decoder + "--alpha 1", "add --beam N"},
      {decoder + "--block_trigrams", "add --beam N"},
      {decoder + "--beam 4 --alpha 1", "--length_penalty power"},
      {decoder + "--beam 4 --length_penalty gnmt --alpha 11", "--alpha is 11"},
      {decoder + "--beam 4 --length_penalty words", "known: none, gnmt, power"},
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
