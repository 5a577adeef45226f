// Sentences that say most of a text: against ROUGE's definition, choice by choice.
#include "models/tasks/principal_sentences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace scaling {
namespace {

using Words = std::vector<std::string>;

TEST(PrincipalSentences, WordsThatRougeCounts) {
  EXPECT_EQ(rouge_words(" The cat's 3 hats, na\u00efve_X."),
            (Words{"the", "cat", "s", "3", "hats", "na\u00efve", "x"}));
  EXPECT_TRUE(rouge_words(" ... ").empty());
  EXPECT_EQ(numbered_words({"A b, a.", "...", "B c"}), (SentenceWords{{0, 1, 0}, {}, {1, 2}}));
}

TEST(PrincipalSentences, F1OfOverlaps) {
  EXPECT_EQ(rouge_f1(0, 0, 7), 0);
  EXPECT_EQ(rouge_f1(0, 3, 7), 0);
  EXPECT_DOUBLE_EQ(rouge_f1(3, 3, 3), 1);
  EXPECT_DOUBLE_EQ(rouge_f1(2, 4, 8), 2 * 0.5 * 0.25 / 0.75);
}

/// By the definition: both sides gathered anew, words counted in maps.
double score(const SentenceWords& text, const std::vector<int>& candidate, bool is_uniq) {
  std::map<int, int> in, out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_in = std::count(candidate.begin(), candidate.end(), int(i)) > 0;
    for (const int word : text[i]) ++(is_in ? in : out)[word];
  }
  double overlap = 0, candidates = 0, references = 0;
  for (const auto& [word, count] : in) {
    candidates += is_uniq ? 1 : count;
    if (out.count(word) > 0) overlap += is_uniq ? 1 : std::min(count, out[word]);
  }
  for (const auto& [word, count] : out) references += is_uniq ? 1 : count;
  if (overlap == 0) return 0;
  const double precision = overlap / candidates, recall = overlap / references;
  return 2 * precision * recall / (precision + recall);
}

std::vector<int> brute_force(const SentenceWords& text, std::int64_t count, bool is_seq,
                             bool is_uniq) {
  std::vector<int> all(text.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> chosen;
  if (!is_seq) {
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) {
      return score(text, {a}, is_uniq) > score(text, {b}, is_uniq);
    });
    chosen.assign(all.begin(), all.begin() + count);
  }
  while (std::int64_t(chosen.size()) < count) {
    int best = -1;
    double highest = -1;
    for (const int i : all) {
      if (std::count(chosen.begin(), chosen.end(), i) > 0) continue;
      std::vector<int> with = chosen;
      with.push_back(i);
      if (score(text, with, is_uniq) <= highest) continue;
      highest = score(text, with, is_uniq);
      best = i;
    }
    chosen.push_back(best);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

SentenceWords random_text(Rng& rng) {
  SentenceWords text(1 + rng.below(9));
  for (std::vector<int>& sentence : text) {
    const std::uint32_t words = rng.below(9);
    for (std::uint32_t i = 0; i < words; ++i) sentence.push_back(int(rng.below(12)));
  }
  return text;
}

TEST(PrincipalSentences, AreThoseOfTheDefinition) {
  Rng rng(1);
  int by_strategy = 0, by_count = 0;
  for (int round = 0; round < 3000; ++round) {
    const SentenceWords text = random_text(rng);
    const std::int64_t count = 1 + rng.below(std::uint32_t(text.size()));
    const auto choose = [&](GapStrategy strategy) {
      return principal_sentences(text, count, strategy, 0, rng);
    };
    const auto ind_orig = choose(GapStrategy::ind_orig), seq_orig = choose(GapStrategy::seq_orig);
    const auto ind_uniq = choose(GapStrategy::ind_uniq), seq_uniq = choose(GapStrategy::seq_uniq);
    ASSERT_EQ(ind_orig, brute_force(text, count, false, false));
    ASSERT_EQ(ind_uniq, brute_force(text, count, false, true));
    ASSERT_EQ(seq_orig, brute_force(text, count, true, false));
    ASSERT_EQ(seq_uniq, brute_force(text, count, true, true));
    by_strategy += ind_orig != seq_orig;
    by_count += ind_orig != ind_uniq;
  }
  // The texts tell the strategies apart.
  EXPECT_GT(by_strategy, 100);
  EXPECT_GT(by_count, 100);
}

TEST(PrincipalSentences, LeadTakesTheFirstAndRandomAnyAlike) {
  Rng rng(2);
  const SentenceWords text(5, {0, 1});
  EXPECT_EQ(principal_sentences(text, 2, GapStrategy::lead, 0, rng), (std::vector<int>{0, 1}));
  std::map<std::vector<int>, int> seen;
  for (int round = 0; round < 10000; ++round) {
    ++seen[principal_sentences(text, 2, GapStrategy::random, 0, rng)];
  }
  EXPECT_EQ(seen.size(), 10u);
  for (const auto& [chosen, times] : seen) EXPECT_NEAR(times, 1000, 150);  // five deviations
}

/// Two sentences whose scores are as 1 and 0.9: factors of 20 % turn them round where
/// 0.9 (1 + 0.2 v) > 1 + 0.2 u, a triangle of the square of u and v.
TEST(PrincipalSentences, NoiseTurnsScoresRoundAsOftenAsItShould) {
  Rng rng(3);
  // Ten words each of a reference of 20: overlaps 10 and 9, then an overlap-free tail.
  SentenceWords text(3);
  for (int word = 0; word < 10; ++word) {
    text[0].push_back(word);
    text[1].push_back(word == 9 ? 50 : 10 + word);
    text[2].push_back(word);
  }
  for (int word = 10; word < 20; ++word) text[2].push_back(word);
  const double first = score(text, {0}, false), second = score(text, {1}, false);
  const double third = score(text, {2}, false);
  ASSERT_NEAR(second / first, 0.9, 1e-9);
  ASSERT_GT(third, first * 1.5) << "always chosen";
  int turned = 0;
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    const auto chosen = principal_sentences(text, 2, GapStrategy::ind_orig, 0.2, rng);
    ASSERT_EQ(chosen.back(), 2);
    turned += chosen.front() == 1;
  }
  // Legs: u below -0.1 - ... where v = 1: u < 0.4; v where u = -1: v > -1 / 9 - ...
  const double u = (0.9 * 1.2 - 1) / 0.2 + 1, v = 1 - (0.8 / 0.9 - 1) / 0.2;
  EXPECT_NEAR(turned / double(kRounds), u * v / 2 / 4, 0.018);
  EXPECT_EQ(principal_sentences(text, 2, GapStrategy::ind_orig, 0, rng), (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace scaling
