// Gap sentences: that source and target make up the text, how much goes, and that examples depend
// on seed and index alone.
#include "models/tasks/gap_sentences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/tasks/catalog.h"
#include "models/tasks/masked.h"
#include "models/text/boundaries.h"
#include "tests/helpers.h"
#include "tests/tasks/text_task_checks.h"

namespace scaling {
namespace {

constexpr std::int64_t kVocab = 260;

TrainConfig config_for(const Folder& folder) {
  TrainConfig config = sentences_config("gap_sentences", folder);
  config.target_length = 101;
  return config;
}

TEST(GapSentences, AsManyAsTheShareSays) {
  EXPECT_EQ(gap_count(0.3, 1), 1);
  EXPECT_EQ(gap_count(0.3, 2), 1);
  EXPECT_EQ(gap_count(0.3, 5), 2);  // 1.5
  EXPECT_EQ(gap_count(0.3, 10), 3);
  EXPECT_EQ(gap_count(0, 10), 1);
  EXPECT_EQ(gap_count(1, 10), 9);
}

/// An example without padding and ends; the source's gaps filled with the target's sentences.
struct Seen {
  std::string text;
  std::int64_t sentences = 0, gaps = 0, masks = 0;
};

Seen seen_in(const Batch& batch, std::int64_t e, const Tokenizer& tokenizer,
             const Boundaries& boundaries) {
  Seen seen;
  std::vector<int> source = example_of(batch.source, e, batch.source_length);
  std::vector<int> target = example_of(batch.target, e, batch.input_length);
  for (std::vector<int>* ids : {&source, &target}) {
    const auto end = std::find(ids->begin(), ids->end(), 1);
    EXPECT_NE(end, ids->end());
    EXPECT_TRUE(std::all_of(end + 1, ids->end(), [](int id) { return id == 0; }));
    ids->erase(end, ids->end());
  }
  std::vector<int> starts = boundaries.of(target).sentences;
  seen.gaps = std::int64_t(starts.size());
  starts.push_back(int(target.size()));
  std::vector<int> filled;
  for (const int id : source) {
    if (id != kMaskId) {
      filled.push_back(id);
    } else if (seen.masks < seen.gaps) {
      const auto at = std::size_t(seen.masks++);
      filled.insert(filled.end(), target.begin() + starts[at], target.begin() + starts[at + 1]);
    }
  }
  seen.sentences = std::int64_t(boundaries.of(filled).sentences.size());
  seen.text = tokenizer.decode(filled);
  return seen;
}

/// Every gap is a mask whose sentence is the target's next: filled in, the document comes back.
TEST(GapSentences, SourceAndTargetMakeUpTheText) {
  for (const char* strategy : {"random", "lead", "ind_orig", "ind_uniq", "seq_orig", "seq_uniq"}) {
    const Folder folder;
    TrainConfig config = config_for(folder);
    set_field(config, "gap_strategy", strategy);
    const std::string corpus = contents(config.corpus);
    const auto task = make_task(config, kVocab, folder / "cache");
    const Tokenizer& tokenizer = task->text()->tokenizer();
    const Boundaries boundaries(tokenizer);
    Batch batch;
    std::set<std::string> texts;
    for (std::int64_t step = 0; step < 20; ++step) {
      task->train_batch(step, 0, 1, batch);
      EXPECT_EQ(batch.source_length, 101);
      for (std::int64_t e = 0; e < batch.examples; ++e) {
        const Seen seen = seen_in(batch, e, tokenizer, boundaries);
        EXPECT_EQ(seen.masks, seen.gaps);
        EXPECT_EQ(seen.gaps, gap_count(0.3, seen.sentences));
        EXPECT_NE(corpus.find(seen.text), std::string::npos) << seen.text;
        texts.insert(seen.text);
        const auto weights = batch.weights.begin() + e * 101;
        const auto target = batch.target.begin() + e * 101;
        for (int i = 0; i < 101; ++i) EXPECT_EQ(weights[i], target[i] == 0 ? 0.0f : 1.0f);
      }
    }
    EXPECT_GT(texts.size(), 100u) << strategy;
  }
}

TEST(GapSentences, TheMixedVariantDrawsItsShareAndLeavesSomeUnmasked) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.gap_share_min = 0.15;
  config.gap_share_max = 0.45;
  config.gap_noise = 0.2;
  config.length = 400;
  config.target_length = 401;
  {
    std::ofstream text(config.corpus);  // twenty sentences a text
    for (int document = 0; document < 100; ++document) {
      text << "{\"text\": \"";
      for (int i = 0; i < 20; ++i) text << (i == 0 ? "" : " ") << "word" << char('a' + i) << " x.";
      text << "\"}\n";
    }
  }
  const auto gaps_and_masks = [&] {
    const auto task = make_task(config, kVocab, folder / "cache");
    const Boundaries boundaries(task->text()->tokenizer());
    std::vector<std::int64_t> counts(21);
    std::int64_t gaps = 0, masks = 0;
    Batch batch;
    for (std::int64_t step = 0; step < 500; ++step) {
      task->train_batch(step, 0, 1, batch);
      for (std::int64_t e = 0; e < batch.examples; ++e) {
        const std::vector<int> target = example_of(batch.target, e, batch.input_length);
        const auto end = std::find(target.begin(), target.end(), 1) - target.begin();
        const auto told = boundaries.of(std::span(target).first(std::size_t(end))).sentences.size();
        ++counts[told];
        gaps += std::int64_t(told);
      }
      masks += std::count(batch.source.begin(), batch.source.end(), kMaskId);
    }
    EXPECT_EQ(std::accumulate(counts.begin() + 3, counts.begin() + 10, std::int64_t(0)), 3000);
    // 20 times the share is uniform from 3 to 9: half a sixth round to 3 and to 9.
    EXPECT_NEAR(double(counts[3]), 250, 76);
    for (std::size_t count = 4; count <= 8; ++count) EXPECT_NEAR(double(counts[count]), 500, 102);
    EXPECT_NEAR(double(counts[9]), 250, 76);
    return double(masks) / double(gaps);
  };
  EXPECT_EQ(gaps_and_masks(), 1);
  config.gap_unmasked = 0.1;
  EXPECT_NEAR(gaps_and_masks(), 0.9, 0.012);
}

TEST(GapSentences, ATargetBeyondItsLengthIsCutAndThatIsSaid) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  const auto whole = make_task(config, kVocab, folder / "cache");
  expect_mentions(whole->description(), {"; 0 of 12 evaluated targets cut at target_length 101"});
  config.target_length = 10;
  const auto task = make_task(config, kVocab, folder / "cache");
  Batch all, cut;
  int shorter = 0, ends = 0;
  for (std::int64_t index = 0; index < task->validation_batches(); ++index) {
    whole->validation_batch(0, index, all);
    task->validation_batch(0, index, cut);
    EXPECT_EQ(all.source, cut.source);
    for (std::int64_t e = 0; e < cut.examples; ++e) {
      const std::vector<int> target = example_of(cut.target, e, 10);
      const std::vector<int> long_one = example_of(all.target, e, 101);
      EXPECT_TRUE(std::equal(target.begin(), target.end(), long_one.begin()));
      const bool has_end = std::count(target.begin(), target.end(), 1) > 0;
      ++(has_end ? ends : shorter);
    }
  }
  EXPECT_EQ(shorter + ends, 12);
  EXPECT_GT(shorter, 6);
  expect_mentions(task->description(),
                  {"; " + std::to_string(shorter) + " of 12 evaluated targets cut"});
}

TEST(GapSentences, ATextOfOneSentenceIsAskedForWhole) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  {
    std::ofstream text(config.corpus);
    for (int i = 0; i < 60; ++i) text << "{\"text\": \"one sentence alone\"}\n";
  }
  std::ofstream(folder / "valid.jsonl") << "{\"text\": \"Two are. Here they are.\"}\n";
  config.validation = folder / "valid.jsonl";
  const auto task = make_task(config, kVocab, folder / "cache");
  Batch batch;
  task->train_batch(0, 0, 1, batch);
  EXPECT_EQ(batch.source[0], kMaskId);
  EXPECT_EQ(batch.source[1], 1);
  EXPECT_EQ(batch.bytes, 6 * 18);

  config.validation = folder / "same.jsonl";
  std::filesystem::copy_file(config.corpus, config.validation);
  expect_mentions(message_of([&] { make_task(config, kVocab, folder / "cache"); }),
                  {config.validation, "no sentences", "60 validation texts of at most 100 tokens",
                   "larger length"});
}

TEST(GapSentences, ExamplesAreAFunctionOfSeedAndIndex) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  config.gap_strategy = GapStrategy::random;
  expect_function_of_index(config, kVocab, folder);
  config.gap_strategy = GapStrategy::ind_orig;
  config.gap_noise = 0.2;
  expect_function_of_index(config, kVocab, folder);
}

TEST(GapSentences, ARunThatResumesIsTheSame) {
  const Folder folder;
  expect_resumes(config_for(folder), kVocab, folder);
}

TEST(GapSentences, EveryKnobIsPartOfTheIdentity) {
  const Folder folder;
  expect_knobs_in_identity(config_for(folder), kVocab, folder,
                           {{"gap_strategy", "seq_uniq"},
                            {"gap_share_min", "0.15"},
                            {"gap_share_max", "0.45"},
                            {"gap_noise", "0.2"},
                            {"gap_unmasked", "0.1"},
                            {"target_length", "50"}});
}

TEST(GapSentences, RefusesWhatNoTextHas) {
  const Folder folder;
  const TrainConfig config = config_for(folder);
  const auto refusal = [&](const std::vector<std::pair<std::string, std::string>>& values) {
    TrainConfig bad = config;
    for (const auto& [knob, value] : values) set_field(bad, knob, value);
    return message_of([&] { needs_of(bad); });
  };
  for (const std::string knob : {"gap_share_min", "gap_share_max", "gap_noise", "gap_unmasked"}) {
    expect_mentions(refusal({{knob, "1.5"}}), {knob + " 1.5", "from 0 to 1"});
  }
  expect_mentions(refusal({{"gap_share_max", "0.2"}}),
                  {"gap_share_max 0.2", "gap_share_min 0.3", "0.45"});
  expect_mentions(refusal({{"gap_noise", "0.2"}, {"gap_strategy", "lead"}}),
                  {"gap_noise 0.2", "lead", "ind_orig"});
  expect_mentions(refusal({{"target_length", "1"}}), {"target_length 1", "2"});
  expect_mentions(message_of([&] {
                    TrainConfig bad = config;
                    set_field(bad, "gap_strategy", "best");
                  }),
                  {"best", "seq_orig"});
}

}  // namespace
}  // namespace scaling
