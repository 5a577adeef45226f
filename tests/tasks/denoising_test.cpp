// Denoising: how often each function strikes, that what is read and what it stands for make up the
// text, and that examples depend on seed and index alone.
#include "models/tasks/denoising.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "models/tasks/catalog.h"
#include "models/tasks/masked.h"
#include "tests/helpers.h"
#include "tests/tasks/text_task_checks.h"

namespace scaling {
namespace {

constexpr Noise kNone{.sentence_permutation = 0, .text_infilling = 0};

/// Words of one to three tokens, sentences of one to six words; every id is another one.
struct Text {
  std::vector<int> ids;
  Boundaries::Starts starts;
};

Text random_text(int words, Rng& rng) {
  Text text;
  std::uint32_t left = 0;
  for (int word = 0; word < words; ++word) {
    const int at = int(text.ids.size());
    text.starts.words.push_back(at);
    if (left == 0) {
      text.starts.sentences.push_back(at);
      left = 1 + rng.below(6);
    }
    --left;
    for (std::uint32_t token = 0; token <= rng.below(3); ++token) {
      text.ids.push_back(10 + int(text.ids.size()));
    }
  }
  return text;
}

NoisedText noised(const Text& text, const Noise& noise, Rng& rng, std::size_t room = 1000) {
  return add_noise(text.ids, text.starts, noise, text.ids.size() + room, rng);
}

std::vector<int> identity(std::size_t n) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// The tokens of the permuted text that `read` stands for, in the order in which it does.
std::vector<int> told(const NoisedText& text) {
  std::vector<int> tokens;
  for (const auto& [id, first, count] : text.read) {
    for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  }
  return tokens;
}

TEST(Denoising, WithoutNoiseTheTextIsRead) {
  Rng rng(1);
  const Text text = random_text(40, rng);
  const NoisedText same = noised(text, kNone, rng);
  EXPECT_EQ(same.order, identity(text.ids.size()));
  ASSERT_EQ(same.read.size(), text.ids.size());
  for (std::size_t i = 0; i < text.ids.size(); ++i) EXPECT_EQ(same.read[i].id, text.ids[i]);
}

/// Every function at once, many texts: whatever is drawn, the text can be put together again.
TEST(Denoising, WhatIsReadStandsForTheText) {
  Rng rng(2);
  for (int round = 0; round < 2000; ++round) {
    Noise noise{.sentence_permutation = rng.uniform(0, 1),
                .text_infilling = 0.5 * rng.uniform(0, 1),
                .infilling_mean = 0.5 + 3 * rng.uniform(0, 1),
                .token_masking = 0.25 * rng.uniform(0, 1),
                .token_deletion = round % 2 == 0 ? 0 : 0.25 * rng.uniform(0, 1),
                .document_rotation = round % 3 == 0 ? 1.0 : 0.0};
    const Text text = random_text(1 + int(rng.below(60)), rng);
    const std::size_t n = text.ids.size(), room = rng.below(4);
    NoisedText made = noised(text, noise, rng, room);
    EXPECT_LE(made.read.size(), n + room);

    std::vector<int> sorted = made.order;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, identity(n));
    // Turned back, what is read is in order, and what is missing was deleted.
    std::vector<int> tokens = told(made);
    if (noise.document_rotation > 0) {
      std::rotate(tokens.begin(), std::min_element(tokens.begin(), tokens.end()), tokens.end());
    }
    EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
    EXPECT_EQ(std::adjacent_find(tokens.begin(), tokens.end()), tokens.end()) << "told twice";
    const auto deleted = std::int64_t(n - tokens.size());
    EXPECT_LE(deleted, noise_budget(noise.token_deletion, std::int64_t(n)));
    if (noise.token_deletion == 0) {
      EXPECT_EQ(tokens, identity(n));
    }
    for (const auto& [id, first, count] : made.read) {
      if (id == kMaskId) continue;
      EXPECT_EQ(count, 1);
      EXPECT_EQ(id, text.ids[std::size_t(made.order[std::size_t(first)])]);
    }
  }
}

TEST(Denoising, MaskingAndDeletionTakeTheirShareOfTokens) {
  Rng rng(3);
  const Text text = random_text(50, rng);
  const std::size_t n = text.ids.size();
  std::vector<int> masked(n), deleted(n);
  constexpr int kRounds = 4000;
  Noise noise = kNone;
  noise.token_masking = 0.2;
  noise.token_deletion = 0.1;
  for (int round = 0; round < kRounds; ++round) {
    const NoisedText made = noised(text, noise, rng);
    std::vector<char> seen(n, 0);
    std::int64_t masks = 0;
    for (const auto& r : made.read) {
      seen[std::size_t(r.first)] = 1;
      if (r.id != kMaskId) continue;
      ++masks;
      ++masked[std::size_t(r.first)];
    }
    EXPECT_EQ(masks, std::int64_t(std::ceil(0.2 * double(n) - 1e-9)));
    EXPECT_EQ(made.read.size(), n - std::size_t(std::ceil(0.1 * double(n) - 1e-9)));
    for (std::size_t i = 0; i < n; ++i) deleted[i] += !seen[i];
  }
  // Each token alike: five standard deviations of a share are 0.032 and 0.024.
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(masked[i] / double(kRounds), std::ceil(0.2 * double(n)) / double(n), 0.032) << i;
    EXPECT_NEAR(deleted[i] / double(kRounds), std::ceil(0.1 * double(n)) / double(n), 0.024) << i;
  }
}

TEST(Denoising, BudgetsAreRoundedUp) {
  EXPECT_EQ(noise_budget(0.3, 1), 1);
  EXPECT_EQ(noise_budget(0.3, 10), 3);
  EXPECT_EQ(noise_budget(0.1, 30), 3);  // 3.0000000000000004 as a double
  EXPECT_EQ(noise_budget(0.3, 11), 4);
  EXPECT_EQ(noise_budget(0, 11), 0);
  EXPECT_EQ(noise_budget(1, 11), 11);
}

TEST(Denoising, PoissonDrawsHaveItsChances) {
  Rng rng(4);
  constexpr int kDraws = 100000;
  std::vector<int> seen(40, 0);
  for (int draw = 0; draw < kDraws; ++draw) ++seen[std::size_t(random_poisson(3, rng))];
  double chance = std::exp(-3.0);
  for (std::size_t k = 0; k < 12; chance *= 3 / double(++k)) {
    const double deviation = std::sqrt(chance * (1 - chance) / kDraws);
    EXPECT_NEAR(seen[k] / double(kDraws), chance, 5 * deviation) << k;
  }
}

TEST(Denoising, SpansCoverExactlyTheBudgetInWholeWords) {
  Rng rng(5);
  const Noise noise{.sentence_permutation = 0};
  constexpr int kRounds = 4000, kWords = 100;
  std::vector<int> covered(kWords);
  std::map<int, int> lengths;
  int spans = 0, empty = 0;
  for (int round = 0; round < kRounds; ++round) {
    Text text = random_text(kWords, rng);
    std::map<int, int> word_at;
    for (std::size_t w = 0; w < text.starts.words.size(); ++w) {
      word_at[text.starts.words[w]] = int(w);
    }
    word_at[int(text.ids.size())] = kWords;
    const NoisedText made = noised(text, noise, rng);
    int words = 0;
    for (const auto& [id, first, count] : made.read) {
      if (id != kMaskId) continue;
      if (count == 0) {
        ++empty;
        continue;
      }
      ASSERT_EQ(word_at.count(first), 1u) << "spans start at words";
      ASSERT_EQ(word_at.count(first + count), 1u) << "and end with words";
      const int begin = word_at[first], end = word_at[first + count];
      for (int w = begin; w < end; ++w) ++covered[std::size_t(w)];
      words += end - begin;
      ++lengths[end - begin];
      ++spans;
    }
    EXPECT_EQ(words, 30);
  }
  // Expected spans by length: at[b] is the chance that b words are still to be covered at some
  // time.
  std::array<double, 31> at{}, expected{};
  at[30] = 1;
  double draws = 0;
  for (std::size_t left = 30; left > 0; --left) {
    const double nonempty = 1 - std::exp(-3.0);
    double rest = at[left], chance = std::exp(-3.0) / nonempty;
    draws += at[left];
    for (std::size_t k = 1; k < left; ++k) {
      chance *= 3 / double(k);
      at[left - k] += at[left] * chance;
      expected[k] += at[left] * chance;
      rest -= at[left] * chance;
    }
    expected[left] += rest;  // cut to what is left
  }
  for (std::size_t k = 1; k <= 8; ++k) {
    EXPECT_NEAR(lengths[int(k)] / double(kRounds), expected[k], 0.1) << k;
  }
  EXPECT_NEAR(spans / double(kRounds), draws, 0.15);
  // A word at an end is covered if a span comes first among spans and kept words; inside, all words
  // are alike. Five deviations of a share of 0.3 are 0.036.
  const double at_an_end = draws / (draws + 70);
  EXPECT_NEAR(covered.front() / double(kRounds), at_an_end, 0.026);
  EXPECT_NEAR(covered.back() / double(kRounds), at_an_end, 0.026);
  const double inside = std::accumulate(covered.begin() + 15, covered.end() - 15, 0.0) / 70;
  for (std::size_t word = 15; word < 85; ++word) {
    EXPECT_NEAR(covered[word] / double(kRounds), inside / kRounds, 0.036) << word;
  }
  EXPECT_NEAR(empty / double(spans + empty), std::exp(-3.0), 0.006);
}

TEST(Denoising, InsertionsEndWhereTheRoomDoes) {
  Rng rng(6);
  Text text;
  for (int word = 0; word < 50; ++word) {
    text.ids.push_back(10 + word);
    text.starts.words.push_back(word);
  }
  text.starts.sentences = {0};
  // Half of 50 words in spans of one or, hundreds, of none.
  const Noise noise{.sentence_permutation = 0, .text_infilling = 0.5, .infilling_mean = 0.1};
  for (const std::size_t room : {0, 7}) {
    const NoisedText made = noised(text, noise, rng, room);
    EXPECT_EQ(made.read.size(), 50 + room);
    EXPECT_EQ(told(made), identity(50));
  }
  std::set<int> places;
  for (int round = 0; round < 20; ++round) {
    for (const auto& r : noised(text, noise, rng).read) {
      if (r.count == 0) places.insert(r.first);
    }
  }
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), 50) << "behind the last token, too";
}

TEST(Denoising, EveryOrderOfSentencesIsEquallyLikely) {
  Rng rng(7);
  const Text text{{10, 11, 12, 13, 14, 15}, {{0, 1, 3, 4}, {0, 1, 3}}};
  Noise noise = kNone;
  noise.sentence_permutation = 1;
  std::map<std::vector<int>, int> orders;
  for (int round = 0; round < 6000; ++round) ++orders[noised(text, noise, rng).order];
  const std::vector<std::vector<int>> all = {{0, 1, 2, 3, 4, 5}, {0, 3, 4, 5, 1, 2},
                                             {1, 2, 0, 3, 4, 5}, {1, 2, 3, 4, 5, 0},
                                             {3, 4, 5, 0, 1, 2}, {3, 4, 5, 1, 2, 0}};
  EXPECT_EQ(orders.size(), 6u);
  // Five deviations of 1,000 are 144.
  for (const auto& order : all) EXPECT_NEAR(orders[order], 1000, 144);

  // Of a share of them the others keep their places.
  noise.sentence_permutation = 0.5;  // two of three
  orders.clear();
  for (int round = 0; round < 6000; ++round) ++orders[noised(text, noise, rng).order];
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_NEAR(orders[all[0]], 3000, 194);
  EXPECT_EQ(orders.count(all[3]) + orders.count(all[4]), 0u) << "all three have moved";
}

TEST(Denoising, AnyTokenComesFirstAfterRotation) {
  Rng rng(8);
  const Text text{{10, 11, 12, 13}, {{0}, {0}}};
  Noise noise = kNone;
  noise.document_rotation = 0.5;
  std::map<int, int> first;
  for (int round = 0; round < 8000; ++round) {
    const NoisedText made = noised(text, noise, rng);
    ++first[made.read[0].id];
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(made.read[i].first, (made.read[i - 1].first + 1) % 4);
    }
  }
  EXPECT_NEAR(first[10], 5000, 217);
  for (const int id : {11, 12, 13}) EXPECT_NEAR(first[id], 1000, 148);
}

/// With all words in one span the source says nothing: what is left is a language model.
TEST(Denoising, AFullCorruptionLeavesMasks) {
  Rng rng(9);
  const Text text = random_text(30, rng);
  const NoisedText made = noised(text, {.text_infilling = 1, .infilling_mean = 100}, rng);
  for (const auto& r : made.read) EXPECT_EQ(r.id, kMaskId);
  Noise gone = kNone;
  gone.token_deletion = 1;
  gone.document_rotation = 1;
  EXPECT_TRUE(noised(text, gone, rng).read.empty());
}

constexpr std::int64_t kVocab = 260;

TrainConfig config_for(const Folder& folder) { return sentences_config("denoising", folder); }

TEST(Denoising, TargetsAreTheTextAndNothingIsCut) {
  const Folder folder;
  TrainConfig config = config_for(folder);
  const auto task = make_task(config, kVocab, folder / "cache");
  const std::int64_t length = config.length + 1;
  EXPECT_EQ(needs_of(config).trained.source, length);
  EXPECT_EQ(needs_of(config).trained.input, length);
  Batch batch;
  std::int64_t masks = 0, targets = 0;
  for (std::int64_t step = 0; step < 100; ++step) {
    task->train_batch(step, 0, 1, batch);
    double bytes = 0;
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const std::vector<int> source = example_of(batch.source, e, length);
      const std::vector<int> target = example_of(batch.target, e, length);
      const auto end = std::find(target.begin(), target.end(), 1);
      ASSERT_NE(end, target.end());
      ASSERT_EQ(std::count(source.begin(), source.end(), 1), 1);
      EXPECT_EQ(*std::find(source.rbegin(), source.rend(), 1), 1);
      masks += std::count(source.begin(), source.end(), kMaskId);
      targets += end - target.begin();
      bytes += double(end - target.begin());
      for (std::int64_t i = 0; i < length; ++i) {
        EXPECT_EQ(batch.weights[std::size_t(e * length + i)],
                  i <= end - target.begin() ? 1.0f : 0.0f);
      }
    }
    EXPECT_EQ(batch.bytes, bytes);
  }
  // A word has about five bytes, a text 18 words; of them 6 go, in two spans or three.
  EXPECT_NEAR(double(masks) / double(targets), 2.5 / (5.25 * 18), 0.008);
}

TEST(Denoising, ExamplesAreAFunctionOfSeedAndIndex) {
  const Folder folder;
  expect_function_of_index(config_for(folder), kVocab, folder);
}

TEST(Denoising, ARunThatResumesIsTheSame) {
  const Folder folder;
  expect_resumes(config_for(folder), kVocab, folder);
}

TEST(Denoising, EveryKnobIsPartOfTheIdentity) {
  const Folder folder;
  expect_knobs_in_identity(config_for(folder), kVocab, folder,
                           {{"sentence_permutation", "0.5"},
                            {"text_infilling", "0.2"},
                            {"infilling_mean", "2"},
                            {"token_masking", "0.1"},
                            {"token_deletion", "0.1"},
                            {"document_rotation", "0.1"}});
}

TEST(Denoising, RefusesSharesThatNoTextHas) {
  const Folder folder;
  const TrainConfig config = config_for(folder);
  const auto refusal = [&](const std::string& knob, const std::string& value) {
    TrainConfig bad = config;
    set_field(bad, knob, value);
    return message_of([&] { needs_of(bad); });
  };
  for (const std::string knob : {"sentence_permutation", "text_infilling", "token_masking",
                                 "token_deletion", "document_rotation"}) {
    expect_mentions(refusal(knob, "1.5"), {knob + " 1.5", "from 0 to 1"});
    expect_mentions(refusal(knob, "-0.5"), {knob + " -0.5", "from 0 to 1"});
  }
  expect_mentions(refusal("infilling_mean", "0"), {"infilling_mean 0", "from 0.1 to 100"});
  expect_mentions(refusal("token_masking", "0.8"),
                  {"text_infilling 0.3", "token_masking 0.8", "1.1", "at most 1"});
}

}  // namespace
}  // namespace scaling
