// The built `generate` over a file of sources as a user meets it: a line for each, what is there
// already kept, and sentences for mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiments/study/record.h"
#include "kernels/team.h"
#include "models/text/tokenizer.h"
#include "models/training/checkpoint.h"
#include "models/transformer/transformer.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kVocab = 259;
constexpr std::size_t kLength = 24, kTargetLength = 12;
const std::vector<std::string> kSources = {"A cat.", "Two dogs run over a far away hill.", "Why?",
                                           "\xc3\x84hre", "exactly 23 bytes long.."};

Outcome generate(const std::string& arguments) {
  return run_program("apps/generate", "--threads 1 " + arguments);
}

std::string quoted(const std::string& path) { return "'" + path + "' "; }

/// An untrained model of bytes and its checkpoint.
struct Untrained {
  std::unique_ptr<Transformer> model;
  std::string checkpoint;
};

Untrained untrained(const Folder& folder, const ModelConfig& config, const std::string& name,
                    const std::string& training) {
  Untrained made{std::make_unique<Transformer>(config), folder / name};
  {
    Team team(1);
    made.model->allocate_for_training(team);
  }
  CheckpointInfo info;
  info.step = 7;
  info.model = config;
  info.training = training;
  save_checkpoint(made.checkpoint, info, weight_arrays(made.model->parameters()));
  return made;
}

Untrained untrained(const Folder& folder, const std::string& name, std::uint64_t seed,
                    std::int64_t encoder_layers, const std::string& training) {
  ModelConfig config = config_of_shape("tiny");
  config.vocab_size = kVocab;
  config.encoder_layers = encoder_layers;
  config.feed_forward = "sparse";
  config.seed = seed;
  return untrained(folder, config, name, training);
}

Untrained of_pairs(const Folder& folder, const std::string& name = "pairs.ckpt",
                   std::uint64_t seed = 1) {
  return untrained(folder, name, seed, 1,
                   R"({"task": "pairs", "target_side": "de", "length": ")" +
                       std::to_string(kLength) + R"(", "target_length": ")" +
                       std::to_string(kTargetLength) + "\"}");
}

/// The likeliest token each time, all of the target so far read anew.
std::string greedy(const Transformer& model, const std::vector<int>& ids) {
  const auto tokenizer = make_byte_tokenizer(kVocab);
  std::vector<int> found;
  while (found.size() < kTargetLength) {
    std::vector<int> target = found;
    target.push_back(0);  // not read
    const Mat logits = model.forward(ids, target);
    const float* row = logits.data() + std::ptrdiff_t(found.size()) * logits.cols();
    const auto best = std::max_element(row, row + logits.cols()) - row;
    if (best == 1) break;
    found.push_back(int(best));
  }
  std::string text = tokenizer->decode(found);
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
  return text;
}

std::string greedy(const Transformer& model, const std::string& source) {
  std::vector<int> ids;
  make_byte_tokenizer(kVocab)->encode(source, ids);
  ids.push_back(1);
  ids.resize(std::min(ids.size(), kLength));
  return greedy(model, ids);
}

std::string as_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::int64_t lines_in(const std::string& path) {
  const std::string text = contents(path);
  return std::count(text.begin(), text.end(), '\n');
}

TEST(GenerateFile, OneLineASourceByTheDefinition) {
  const Folder folder;
  const Untrained made = of_pairs(folder);
  std::vector<std::string> expected;
  for (const std::string& source : kSources) expected.push_back(greedy(*made.model, source));
  std::ofstream(folder / "test.en") << as_lines(kSources);
  const std::string out = folder / "texts.txt";
  const std::string command = "--checkpoint " + quoted(made.checkpoint) + "--sources " +
                              quoted(folder / "test.en") + "--out ";
  const Outcome outcome = generate(command + quoted(out));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(contents(out), as_lines(expected));
  // 6 + 34 + 4 + 5 + 23 bytes; the second has ten too many and no end.
  expect_mentions(outcome.text, {"5 texts", "1 source cut at 24 tokens (10 of 72 tokens)",
                                 "without an end at 12"});

  // What is there is kept.
  const Outcome again = generate(command + quoted(out));
  EXPECT_EQ(again.status, 0);
  expect_mentions(again.text, {"has 5 of 5 texts already"});
  EXPECT_EQ(contents(out), as_lines(expected));
  // Ended in the midst of the third line.
  std::ofstream(out) << as_lines({expected[0], expected[1]}) + "x";
  const Outcome rest = generate(command + quoted(out));
  EXPECT_EQ(rest.status, 0) << rest.text;
  expect_mentions(rest.text, {"has 2 of 5", "3 texts"});
  EXPECT_EQ(contents(out), as_lines(expected));

  // What the texts cost, all three times together.
  const auto cost = nlohmann::json::parse(contents(out + ".cost.json"));
  EXPECT_EQ(cost.at("texts"), 8);
  EXPECT_EQ(cost.at("threads"), 1);
  EXPECT_GE(cost.at("tokens"), 8);
  EXPECT_GT(cost.at("seconds"), 0);

  // The same sources as objects; fewer tokens; another weight type.
  std::ofstream objects(folder / "test.jsonl");
  for (const std::string& source : kSources) objects << R"({"article": ")" << source << "\"}\n";
  objects.close();
  const Outcome of_objects = generate("--checkpoint " + quoted(made.checkpoint) + "--sources " +
                                      quoted(folder / "test.jsonl") + "--text_key article --out " +
                                      quoted(folder / "objects.txt"));
  EXPECT_EQ(of_objects.status, 0) << of_objects.text;
  EXPECT_EQ(contents(folder / "objects.txt"), as_lines(expected));
  const Outcome fewer = generate(command + quoted(folder / "fewer.txt") + "--tokens 3");
  expect_mentions(fewer.text, {"without an end at 3"});
  EXPECT_EQ(lines_in(folder / "fewer.txt"), 5);
  EXPECT_EQ(generate(command + quoted(folder / "bf16.txt") + "--weight_type bf16").status, 0);
  EXPECT_EQ(lines_in(folder / "bf16.txt"), 5);
}

TEST(GenerateFile, SearchesAndDrawsALineAtATime) {
  const Folder folder;
  const Untrained made = of_pairs(folder);
  std::ofstream(folder / "test.en") << as_lines(kSources);
  std::ofstream(folder / "one.en") << kSources[0] << "\n";
  const auto texts = [&](const std::string& name, const std::string& sources,
                         const std::string& more) {
    const Outcome outcome =
        generate("--checkpoint " + quoted(made.checkpoint) + "--sources " +
                 quoted(folder / sources) + "--out " + quoted(folder / name) + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return contents(folder / name);
  };
  const std::string plain = texts("plain", "test.en", "");
  EXPECT_EQ(texts("beam1", "test.en", "--beam 1"), plain);
  const std::string search = "--beam 4 --length_penalty gnmt --block_trigrams";
  const std::string found = texts("beam4", "test.en", search);
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 5);
  EXPECT_EQ(texts("beam4_one", "one.en", search), found.substr(0, found.find('\n') + 1));

  // Draws of a line do not depend on where the command began.
  const std::string drawn = texts("drawn", "test.en", "--temperature 1");
  EXPECT_NE(drawn, plain);
  EXPECT_NE(texts("drawn2", "test.en", "--temperature 1 --seed 2"), drawn);
  std::ofstream(folder / "drawn") << drawn.substr(0, drawn.find('\n') + 1);
  EXPECT_EQ(texts("drawn", "test.en", "--temperature 1"), drawn);
}

/// GPT-2's summaries: an article, a cue, and what such a text goes on with.
TEST(GenerateFile, AModelWithoutAnEncoderGoesOnBehindACue) {
  const Folder folder;
  const std::string causal = R"({"task": "causal", "length": "48"})";
  const Untrained made = untrained(folder, "causal.ckpt", 1, 0, causal);
  std::ofstream(folder / "test.en") << as_lines(kSources);
  const std::string command = "--checkpoint " + quoted(made.checkpoint) + "--sources " +
                              quoted(folder / "test.en") + "--cue ' So:' --out ";
  const std::string few = " --tokens 20 ";
  const Outcome outcome = generate(command + quoted(folder / "texts") + few);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  // 48 positions less 20 and 4 leave 24: of 34 bytes ten are cut.
  expect_mentions(outcome.text, {"5 texts", "1 source cut at 24 tokens (10 of 72 tokens)"});
  // One text at a time comes to the same.
  std::string expected;
  for (const std::string& source : kSources) {
    const Outcome one = generate("--checkpoint " + quoted(made.checkpoint) +
                                 "--tokens 20 --prompt " + quoted(source.substr(0, 24) + " So:"));
    ASSERT_EQ(one.status, 0) << one.text;
    const std::size_t begin = std::min(source.size(), std::size_t(24)) + 4;
    std::string text = one.text.substr(0, one.text.find(" ms each on"));
    text = text.substr(begin, text.rfind('\n') - begin);
    for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
    expected += text + "\n";
  }
  EXPECT_EQ(contents(folder / "texts"), expected);

  const std::string drawn = command + quoted(folder / "drawn") + "--temperature 1 --top_k 2" + few;
  EXPECT_EQ(generate(drawn).status, 0);
  EXPECT_NE(contents(folder / "drawn"), expected);
  EXPECT_EQ(generate(drawn + "--seed 2").status, 2) << "another run";
  EXPECT_EQ(generate(command + quoted(folder / "one") + "--temperature 1 --top_k 1" + few).status,
            0);
  EXPECT_EQ(contents(folder / "one"), expected) << "of one there is no choice";

  for (const auto& [arguments, words] :
       {std::pair(command + quoted(folder / "x") + "--tokens 44", "leave no source room"),
        std::pair("--checkpoint " + quoted(made.checkpoint) + "--sources " +
                      quoted(folder / "test.en") + "--out " + quoted(folder / "x"),
                  "say with --cue"),
        std::pair("--checkpoint " + quoted(of_pairs(folder).checkpoint) + "--sources " +
                      quoted(folder / "test.en") + "--cue x --out " + quoted(folder / "x"),
                  "reads the sources"),
        std::pair(command + quoted(folder / "x") + "--sentences -1" + few, "--sentences is -1")}) {
    const Outcome refused = generate(arguments);
    EXPECT_EQ(refused.status, 2) << refused.text;
    expect_mentions(refused.text, {words});
  }
}

TEST(GenerateFile, NeverMixesTwoRuns) {
  const Folder folder;
  const std::string one = of_pairs(folder, "one.ckpt", 1).checkpoint;
  const std::string other = of_pairs(folder, "other.ckpt", 2).checkpoint;
  std::ofstream(folder / "a.en") << "One.\n";
  std::ofstream(folder / "b.en") << "Two.\n";
  const std::string out = folder / "texts.txt";
  const auto run = [&](const std::string& checkpoint, const std::string& sources,
                       const std::string& more = "") {
    return generate("--checkpoint " + quoted(checkpoint) + "--sources " + quoted(folder / sources) +
                    "--out " + quoted(out) + more);
  };
  ASSERT_EQ(run(one, "a.en").status, 0);
  const std::string lines = contents(out);
  for (const Outcome& refused :
       {run(other, "a.en"), run(one, "b.en"), run(one, "a.en", "--weight_type bf16"),
        run(one, "a.en", "--tokens 11"), run(one, "a.en", "--temperature 1"),
        run(one, "a.en", "--beam 2"), run(one, "a.en", "--beam 2 --block_trigrams")}) {
    EXPECT_EQ(refused.status, 2) << refused.text;
    expect_mentions(refused.text, {out, "another run", "--out", "delete"});
  }
  fs::remove(out + ".made_of");
  const Outcome unknown = run(one, "a.en");
  EXPECT_EQ(unknown.status, 2);
  expect_mentions(unknown.text, {out, "unknown run"});
  EXPECT_EQ(contents(out), lines);
  fs::remove(out);
  EXPECT_EQ(run(other, "b.en").status, 0);
}

/// A hierarchical encoder reads paragraphs where training had them.
TEST(GenerateFile, ParagraphsAreLaidOutAsInTraining) {
  const Folder folder;
  ModelConfig config = config_of_shape("tiny");
  config.vocab_size = kVocab;
  config.encoder_layers = 2;
  config.encoder_attention = "paragraph,inter_paragraph";
  set_field(config, "paragraph_length", 8);
  const Untrained made = untrained(
      folder, config, "paragraphs.ckpt",
      R"({"task": "pairs", "target_side": "abstract", "length": "24", "target_length": "12",
          "paragraph_tokens": "8"})");
  std::ofstream(folder / "test.jsonl") << R"({"article": "A cat.\n\nTwo dogs run."})"
                                       << "\n"
                                       << R"({"article": "a\n\nb\n\nc\n\nd"})"
                                       << "\n";
  const auto ids = [](const std::string& shown) {
    std::vector<int> all;
    for (const char c : shown) all.push_back(c == '_' ? 0 : c == '|' ? 1 : 3 + c);
    return all;
  };
  const std::string command = "--checkpoint " + quoted(made.checkpoint);
  const Outcome outcome =
      generate(command + "--text_key article --sources " + quoted(folder / "test.jsonl") +
               "--out " + quoted(folder / "out.txt"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(contents(folder / "out.txt"),
            as_lines({greedy(*made.model, ids("A cat.|_Two dogs________")),
                      greedy(*made.model, ids("a|______b|______c_______"))}));
  expect_mentions(outcome.text, {"2 sources cut at 24 tokens (6 of 23 tokens)"});
  const Outcome single = generate(command + "--source x");
  EXPECT_EQ(single.status, 2);
  expect_mentions(single.text, {"paragraphs of 8 tokens", "--sources"});
}

TEST(GenerateFile, MistakesExitWithTwoAndASentence) {
  const Folder folder;
  const std::string pairs = "--checkpoint " + quoted(of_pairs(folder).checkpoint);
  const std::string causal =
      "--checkpoint " +
      quoted(untrained(folder, "causal.ckpt", 1, 0, R"({"task": "causal"})").checkpoint);
  const std::string numbers =
      "--checkpoint " +
      quoted(untrained(folder, "numbers.ckpt", 1, 1, R"({"task": "copy_pairs"})").checkpoint);
  std::ofstream(folder / "test.en") << "One.\n\nThree.\n";
  std::ofstream(folder / "good.en") << "One.\n";
  std::ofstream(folder / "empty.en") << "";
  const std::string out = "--out " + quoted(folder / "out.txt");
  const auto sources = [&](const std::string& name) {
    return "--sources " + quoted(folder / name);
  };
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {sources("good.en") + out, "--checkpoint"},
      {pairs + out, "--out is for a file of sources"},
      {pairs + "--text_key x", "--text_key is for a file of sources"},
      {pairs + sources("good.en"), "--out is missing"},
      {pairs + sources("good.en") + out + "--source x", "--source is one text"},
      {pairs + sources("good.en") + out + "--prompt x", "--prompt is one text"},
      {causal + sources("good.en") + out, "no encoder"},
      {numbers + sources("good.en") + out, "task copy_pairs"},
      {pairs + sources("none.en") + out, "none.en"},
      {pairs + sources("test.en") + out, "test.en:2: no text"},
      {pairs + sources("empty.en") + out, "no texts"},
      {pairs + sources("good.en") + "--kernels nonsense " + out, "nonsense"},
      {pairs + sources("good.en") + "--out " + quoted(folder / "none/out.txt"), "none/out.txt"}};
  for (const auto& [arguments, words] : mistakes) {
    const Outcome outcome = generate(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments << ": " << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
  EXPECT_FALSE(fs::exists(folder / "out.txt"));
}

/// From two files to a translation: which of two words a source stands for is soon learnt.
TEST(GenerateFile, WhatATrainedCurveSays) {
  const Folder folder;
  {
    std::ofstream sources(folder / "train.en"), targets(folder / "train.de");
    for (int line = 0; line < 200; ++line) {
      sources << (line % 3 == 0 ? "aaaaaaaa " : "bbbbbbbb ") << line << "\n";
      targets << (line % 3 == 0 ? "ja\n" : "nein\n");
    }
  }
  const std::string command =
      "--config '" + std::string(SOURCE_DIR) +
      "/experiments/configs/training/tiny_curve.cfg' --rows dense --gemm eigen --threads 1 " +
      "--task pairs --length 20 --target_length 12 --steps 300 --learning_rate 0.01 --results '" +
      folder.path() + "' --corpus '" + (folder / "train.en") + "' ";
  const Outcome unsaid = run_driver("perplexity", command + "--encoder_layers 1");
  EXPECT_NE(unsaid.status, 0);
  expect_mentions(unsaid.text, {"target_side is empty"});
  const Outcome one_stack = run_driver("perplexity", command + "--target_side de");
  EXPECT_NE(one_stack.status, 0);
  expect_mentions(one_stack.text, {"task pairs", "encoder_layers"});
  const Outcome trained =
      run_driver("perplexity",
                 command + "--target_side de --encoder_layers 1 --decode_check --decode_tokens 40");
  ASSERT_EQ(trained.status, 0) << trained.text;
  expect_mentions(trained.text, {"200 pairs", "0 and 0 sources at length 20"});
  std::map<std::string, double> metrics;
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) metrics[r.metric] = r.value;
  EXPECT_NEAR(metrics["decode_log_perplexity.f32"], metrics["decode_reference_log_perplexity"],
              1e-4);

  std::ofstream(folder / "test.en") << "aaaaaaaa 301\nbbbbbbbb 17\naaaaaaaa 5\n";
  const std::string checkpoint =
      "--checkpoint " + quoted(folder / "checkpoints/tiny_curve/dense.1/best.ckpt");
  for (const std::string how : {"", "--beam 2 --length_penalty power"}) {
    const std::string out = folder / ("texts" + std::to_string(how.size()));
    const Outcome outcome = generate(checkpoint + "--sources " + quoted(folder / "test.en") +
                                     "--out " + quoted(out) + how);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(contents(out), "ja\nnein\nja\n") << how;
    expect_mentions(outcome.text, {"0 texts without an end"});
  }
}

}  // namespace
}  // namespace scaling
