// Pairs: that examples are the files' pairs, joined and cut as the knobs say, that what is cut is
// said, and that they are learnt and resumed like others.
#include "models/tasks/pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/tasks/catalog.h"
#include "tests/helpers.h"
#include "tests/tasks/text_task_checks.h"

namespace scaling {
namespace {

constexpr std::int64_t kVocab = 260;

using Texts = std::vector<std::pair<std::string, std::string>>;

std::string random_words(Rng& rng, char first) {
  std::string text;
  const std::uint32_t words = 1 + rng.below(8);
  for (std::uint32_t word = 0; word < words; ++word) {
    if (word > 0) text += ' ';
    const std::uint32_t letters = 1 + rng.below(6);
    for (std::uint32_t i = 0; i < letters; ++i) text.push_back(char(first + int(rng.below(13))));
  }
  return text;
}

/// Sources of the alphabet's first letters, targets of the others.
Texts random_pairs(int count, std::uint64_t seed) {
  Texts texts;
  Rng rng(seed);
  for (int i = 0; i < count; ++i) {
    std::string source = random_words(rng, 'a');
    texts.emplace_back(std::move(source), random_words(rng, 'n'));
  }
  return texts;
}

/// As two files, and as one of objects.
void write_pairs(const Folder& folder, const std::string& name, const Texts& texts) {
  std::ofstream sources(folder / (name + ".en")), targets(folder / (name + ".de"));
  std::ofstream objects(folder / (name + ".jsonl"));
  for (const auto& [source, target] : texts) {
    sources << source << '\n';
    targets << target << '\n';
    objects << R"({"abstract": ")" << target << R"(", "article": ")" << source << "\"}\n";
  }
}

TrainConfig config_for(const Folder& folder) {
  TrainConfig config = sentences_config("pairs", folder);
  write_pairs(folder, "train", random_pairs(400, 1));
  write_pairs(folder, "valid", random_pairs(30, 2));
  config.corpus = folder / "train.en";
  config.target_side = "de";
  config.length = 60;
  config.target_length = 60;
  return config;
}

/// Up to the end; the whole of what has none.
std::string text_of(const std::vector<int>& ids, const Tokenizer& tokenizer) {
  return tokenizer.decode({ids.begin(), std::find(ids.begin(), ids.end(), 1)});
}

/// Of every example of 70 steps, an epoch and more.
Texts seen_in(const Task& task) {
  Texts seen;
  Batch batch;
  const Tokenizer& tokenizer = task.text()->tokenizer();
  for (std::int64_t step = 0; step < 70; ++step) {
    task.train_batch(step, 0, 1, batch);
    EXPECT_TRUE(batch.causal);
    double bytes = 0;
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const std::vector<int> target = example_of(batch.target, e, batch.input_length);
      seen.emplace_back(text_of(example_of(batch.source, e, batch.source_length), tokenizer),
                        text_of(target, tokenizer));
      bytes += double(seen.back().second.size());
      const auto weights = batch.weights.begin() + e * batch.input_length;
      const auto input = batch.input.begin() + e * batch.input_length;
      for (std::size_t i = 0; i < target.size(); ++i) {
        EXPECT_EQ(weights[std::ptrdiff_t(i)], target[i] == 0 ? 0.0f : 1.0f);
        EXPECT_EQ(input[std::ptrdiff_t(i)], i == 0 ? 0 : target[i - 1]);
      }
    }
    EXPECT_EQ(batch.bytes, bytes);
  }
  return seen;
}

TEST(Pairs, ExamplesAreThePairsOfTheFiles) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  const Texts texts = random_pairs(400, 1);
  const std::map<std::string, std::string> targets(texts.begin(), texts.end());
  const auto task = make_task(config, kVocab, folder / "cache");
  const Texts seen = seen_in(*task);
  std::map<std::string, std::string> different;
  for (const auto& [source, target] : seen) {
    ASSERT_EQ(targets.count(source), 1u) << source;
    // Short sources may come twice.
    if (std::count_if(texts.begin(), texts.end(),
                      [&s = source](const auto& pair) { return pair.first == s; }) == 1) {
      EXPECT_EQ(targets.at(source), target);
    }
    different[source] = target;
  }
  EXPECT_GT(different.size(), 350u);
  expect_mentions(task->description(),
                  {"2 files, 400 pairs", "392 chunks of 60 + 60 to train on, 8 to evaluate on",
                   "cut: 0 and 0 sources at length 60 (0 of ", "tokens), 0 and 0 targets at "});

  // Objects make the same examples.
  config.corpus = folder / "train.jsonl";
  config.text_key = "article";
  config.target_side = "abstract";
  EXPECT_EQ(seen_in(*make_task(config, kVocab, folder / "cache")), seen);
}

TEST(Pairs, WhatIsCutIsTheBeginningAndIsCounted) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.validation = folder / "valid.en";
  config.length = 25;
  config.target_length = 18;
  const auto task = make_task(config, kVocab, folder / "cache");
  const auto longer = [](const Texts& texts) {
    std::pair<int, int> count;
    for (const auto& [source, target] : texts) {
      count.first += source.size() > 24;  // and an end
      count.second += target.size() > 17;
    }
    return count;
  };
  // Bytes beyond, and all.
  const auto share = [&](std::size_t room, bool of_sources) {
    std::size_t lost = 0, all = 0;
    for (const Texts& texts : {random_pairs(400, 1), random_pairs(30, 2)}) {
      for (const auto& [source, target] : texts) {
        const std::size_t size = of_sources ? source.size() : target.size();
        lost += size - std::min(size, room);
        all += size;
      }
    }
    return " (" + scaled(double(lost)) + " of " + scaled(double(all)) + " tokens)";
  };
  const Texts trained = random_pairs(400, 1);
  const auto [sources, targets] = longer(trained);
  const auto [held_sources, held_targets] = longer(random_pairs(30, 2));
  EXPECT_GT(sources, 20);
  EXPECT_GT(targets, 20);
  expect_mentions(task->description(),
                  {"cut: " + std::to_string(sources) + " and " + std::to_string(held_sources) +
                       " sources at length 25" + share(25, true) + ", ",
                   ", " + std::to_string(targets) + " and " + std::to_string(held_targets) +
                       " targets at target_length 18" + share(18, false)});
  for (const auto& [source, target] : seen_in(*task)) {
    EXPECT_TRUE(std::any_of(trained.begin(), trained.end(),
                            [&s = source, &t = target](const auto& pair) {
                              return pair.first.substr(0, 25) == s &&
                                     pair.second.substr(0, 18) == t;
                            }))
        << source << " | " << target;
  }
}

TEST(Pairs, ConsecutiveOnesAreJoined) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.length = 200;
  config.target_length = 100;
  config.join_pairs = 40;
  std::string sources, targets;  // all texts, one after another
  for (const auto& [source, target] : random_pairs(400, 1)) {
    sources += source + " ";
    targets += target + " ";
  }
  const auto task = make_task(config, kVocab, folder / "cache");
  std::size_t enough = 0;
  const Texts seen = seen_in(*task);
  for (const auto& [source, target] : seen) {
    EXPECT_NE(sources.find(source + " "), std::string::npos) << source;
    EXPECT_NE(targets.find(target + " "), std::string::npos) << target;
    enough += target.size() >= 40;
  }
  EXPECT_GT(enough, seen.size() * 9 / 10);
  EXPECT_LT(task->text()->training_chunks(), 250u);
}

/// Letters that only targets have are pieces of their own, not bytes.
TEST(Pairs, AVocabularyOfPiecesIsThatOfBothSides) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.tokenizer = TokenizerKind::sentencepiece;
  const auto task = make_task(config, 320, folder / "cache");
  const Tokenizer& tokenizer = task->text()->tokenizer();
  for (const std::string letter : {"a", "n", "z"}) {
    std::vector<int> ids;
    tokenizer.encode(letter, ids);
    ASSERT_EQ(ids.size(), 1u);
    EXPECT_GT(ids[0], 2 + 256) << letter;
  }
  const Texts texts = random_pairs(400, 1);
  const std::map<std::string, std::string> targets(texts.begin(), texts.end());
  for (const auto& [source, target] : seen_in(*task)) EXPECT_EQ(targets.count(source), 1u);
}

/// Articles of up to six sections, each a heading and a line.
Texts articles(int count, std::uint64_t seed) {
  Texts texts;
  Rng rng(seed);
  for (int i = 0; i < count; ++i) {
    std::string source;
    const std::uint32_t sections = 1 + rng.below(6);
    for (std::uint32_t section = 0; section < sections; ++section) {
      if (section > 0) source += "\n\n";
      source += random_words(rng, 'a') + "\n" + random_words(rng, 'a');
    }
    texts.emplace_back(source, random_words(rng, 'n'));
  }
  return texts;
}

TrainConfig config_of_paragraphs(const Folder& folder) {
  TrainConfig config = config_for(folder);
  for (const auto& [name, count] : std::map<std::string, int>{{"train", 300}, {"valid", 30}}) {
    std::ofstream out(folder / ("sections_" + name + ".jsonl"));
    for (auto [source, target] : articles(count, std::uint64_t(count))) {
      for (std::size_t at = 0; (at = source.find('\n', at)) != std::string::npos; at += 2) {
        source.replace(at, 1, "\\n");
      }
      out << R"({"article": ")" << source << R"(", "abstract": ")" << target << "\"}\n";
    }
  }
  config.corpus = folder / "sections_train.jsonl";
  config.validation = folder / "sections_valid.jsonl";
  config.text_key = "article";
  config.target_side = "abstract";
  config.length = 160;
  config.paragraph_tokens = 40;
  return config;
}

/// Each section at its place, the first four of them and of each the first 40 bytes.
TEST(Pairs, ParagraphsAreTheSectionsOfASource) {
  const Folder folder;
  const TrainConfig config = config_of_paragraphs(folder);
  std::map<std::string, std::vector<int>> laid_out;  // by the first paragraph and the target
  int cut_sources[2] = {0, 0};
  std::size_t lost = 0, all = 0;
  for (const int count : {300, 30}) {
    for (const auto& [source, target] : articles(count, std::uint64_t(count))) {
      std::vector<int> ids;
      bool is_cut = false;
      for (std::size_t begin = 0; begin < source.size();) {
        const std::size_t end = std::min(source.find("\n\n", begin), source.size());
        const std::string section = source.substr(begin, end - begin);
        all += section.size();
        const std::size_t room = ids.size() < 160 ? 40 : 0;
        const std::size_t kept = std::min(section.size(), room);
        lost += section.size() - kept;
        if (room == 0) {
          if (const auto last = std::find(ids.begin() + 120, ids.end(), 1); last != ids.end()) {
            *last = 0;
          }
        }
        is_cut |= section.size() >= room;
        for (std::size_t i = 0; i < kept; ++i) ids.push_back(3 + section[i]);
        if (kept < room) ids.push_back(1);
        ids.resize((ids.size() + 39) / 40 * 40, 0);
        begin = end + 2;
      }
      ids.resize(160, 0);
      cut_sources[count == 30] += is_cut;
      laid_out[source.substr(0, 40) + target] = ids;
    }
  }
  ASSERT_GT(laid_out.size(), 320u);
  EXPECT_GT(cut_sources[0], 20);
  const auto task = make_task(config, kVocab, folder / "cache");
  Batch batch;
  const Tokenizer& tokenizer = task->text()->tokenizer();
  int met = 0;
  for (std::int64_t step = 0; step < 50; ++step) {
    task->train_batch(step, 0, 1, batch);
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const std::vector<int> source = example_of(batch.source, e, batch.source_length);
      const std::string target = text_of(example_of(batch.target, e, 60), tokenizer);
      for (const auto& [key, ids] : laid_out) met += key.ends_with(target) && ids == source;
    }
  }
  EXPECT_GE(met, 300);
  expect_mentions(
      task->description(),
      {"cut: " + std::to_string(cut_sources[0]) + " and " + std::to_string(cut_sources[1]) +
       " sources at length 160 of 4 paragraphs of 40 (" + scaled(double(lost)) + " of " +
       scaled(double(all)) + " tokens)"});
}

TEST(Pairs, ParagraphsResumeAndAreKnown) {
  const Folder folder;
  const TrainConfig config = config_of_paragraphs(folder);
  expect_function_of_index(config, kVocab, folder);
  expect_resumes(config, kVocab, folder);
  expect_knobs_in_identity(config, kVocab, folder, {{"paragraph_tokens", "20"}});
  // What has none is what it was before there were any.
  TrainConfig none = config;
  none.paragraph_tokens = 0;
  EXPECT_EQ(needs_of(none).recipe, "join_pairs=0");
}

TEST(Pairs, ExamplesAreAFunctionOfSeedAndIndex) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  expect_function_of_index(config, kVocab, folder);
  config.join_pairs = 30;
  expect_function_of_index(config, kVocab, folder);
}

TEST(Pairs, ARunThatResumesIsTheSame) {
  const Folder folder;
  expect_resumes(config_for(folder), kVocab, folder);
}

TEST(Pairs, EveryKnobIsPartOfTheIdentity) {
  const Folder folder;
  const TrainConfig config = config_for(folder);
  write_pairs(folder, "other", random_pairs(400, 3));
  std::ofstream(folder / "train.other") << contents(folder / "other.de");
  expect_knobs_in_identity(config, kVocab, folder,
                           {{"target_side", "other"},
                            {"join_pairs", "30"},
                            {"length", "59"},
                            {"target_length", "59"},
                            {"validation", folder / "valid.en"}});
  // The other side under another name is the same text.
  std::ofstream(folder / "train.deu") << contents(folder / "train.de");
  TrainConfig renamed = config;
  renamed.target_side = "deu";
  EXPECT_EQ(data_identity(renamed, kVocab, folder / "cache"),
            data_identity(config, kVocab, folder / "cache"));
}

/// The targets' letters are learnt at least: half of all bytes never come.
TEST(Pairs, AreLearnt) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.learning_rate = 0.01;
  config.steps = 100;
  set_gemm_threads(1);
  const auto task = make_task(config, kVocab, folder / "cache");
  ModelConfig shape = config_of_shape("tiny");
  shape.vocab_size = kVocab;
  shape.encoder_layers = 1;
  shape.decoder_layers = 1;
  Transformer model(shape);
  {
    Team team(1);
    model.allocate_for_training(team);
  }
  Trainer trainer(model, *task, config, folder / "run");
  const double before = trainer.evaluate().log_perplexity;
  EXPECT_GT(before, 0.9 * std::log(double(kVocab)));
  EXPECT_TRUE(trainer.run(nullptr, nullptr));
  EXPECT_LT(trainer.evaluate().log_perplexity, std::log(30.0));
}

TEST(Pairs, RefusesWhatIsNoPair) {
  const Folder folder;
  const TrainConfig config = config_for(folder);
  const auto refusal = [&](const std::vector<std::pair<std::string, std::string>>& values) {
    TrainConfig bad = config;
    for (const auto& [knob, value] : values) set_field(bad, knob, value);
    return message_of([&] { make_task(bad, kVocab, folder / "cache"); });
  };
  expect_mentions(refusal({{"target_side", ""}}), {"target_side is empty", "train.de", "key"});
  expect_mentions(refusal({{"join_pairs", "-1"}}), {"join_pairs -1", "at least 0"});
  expect_mentions(refusal({{"target_length", "1"}}), {"target_length 1", "2"});
  expect_mentions(refusal({{"paragraph_tokens", "-1"}}), {"paragraph_tokens -1", "at least 0"});
  expect_mentions(
      refusal({{"paragraph_tokens", "25"}}),
      {"length 60", "no multiple of paragraph_tokens 25", "give a number of paragraphs"});
  expect_mentions(refusal({{"paragraph_tokens", "20"}, {"join_pairs", "9"}}),
                  {"paragraph_tokens 20", "join_pairs 9", "set one of them 0"});
  expect_mentions(refusal({{"corpus", "generated"}}), {"generated", "no pairs"});
  expect_mentions(refusal({{"target_side", "fr"}}), {"train.fr", "not there"});
  expect_mentions(refusal({{"validation", folder / "none.en"}}), {"none.en"});
  std::ofstream(folder / "train.fr") << "one line\n";
  expect_mentions(refusal({{"target_side", "fr"}}), {"400 lines", "train.fr' 1,", "line 2"});
  const Needs needs = needs_of(config);
  EXPECT_EQ(needs.trained.source, 60);
  EXPECT_EQ(needs.trained.input, 60);
  EXPECT_EQ(needs.length_knobs, "length, target_length");
}

}  // namespace
}  // namespace scaling
