// Scores from counts of words that are kept up to date while sentences are chosen.
#include "models/tasks/principal_sentences.h"

#include <algorithm>
#include <unordered_map>

#include "kernels/check.h"
#include "models/tasks/choices.h"

namespace scaling {
namespace {

/// A text in two, the chosen sentences and those that are left, and what they share.
class Division {
 public:
  Division(const SentenceWords& sentences, bool is_uniq) : is_uniq_(is_uniq) {
    int words = 0;
    for (const std::vector<int>& sentence : sentences) {
      for (const int word : sentence) words = std::max(words, word + 1);
    }
    chosen_.assign(std::size_t(words), 0);
    left_.assign(std::size_t(words), 0);
    for (const std::vector<int>& sentence : sentences) move(sentence, 0, 1);
  }

  void choose(const std::vector<int>& sentence) { move(sentence, 1, -1); }
  /// ROUGE-1 F1 of the chosen sentences and this one against the others.
  double score_with(const std::vector<int>& sentence) {
    move(sentence, 1, -1);
    const double score = rouge_f1(overlap_, candidate_, reference_);
    move(sentence, -1, 1);
    return score;
  }

 private:
  /// How often `count` words count.
  int counted(int count) const { return is_uniq_ ? std::min(count, 1) : count; }

  void move(const std::vector<int>& sentence, int to_chosen, int to_left) {
    for (const int word : sentence) {
      int &chosen = chosen_[std::size_t(word)], &left = left_[std::size_t(word)];
      count(chosen, left, -1);
      chosen += to_chosen;
      left += to_left;
      count(chosen, left, 1);
    }
  }

  void count(int chosen, int left, int sign) {
    candidate_ += sign * counted(chosen);
    reference_ += sign * counted(left);
    overlap_ += sign * counted(std::min(chosen, left));
  }

  bool is_uniq_;
  std::vector<int> chosen_, left_;  // how often each word appears
  std::int64_t candidate_ = 0, reference_ = 0, overlap_ = 0;
};

std::vector<char> best_sentences(const SentenceWords& sentences, std::int64_t count,
                                 GapStrategy strategy, double noise, Rng& rng) {
  const bool is_uniq = strategy == GapStrategy::ind_uniq || strategy == GapStrategy::seq_uniq;
  const bool is_seq = strategy == GapStrategy::seq_orig || strategy == GapStrategy::seq_uniq;
  const std::size_t n = sentences.size();
  std::vector<double> factors(n, 1.0);
  if (noise > 0) {
    for (double& factor : factors) factor = 1 + noise * double(rng.uniform(-1, 1));
  }
  Division division(sentences, is_uniq);
  std::vector<double> scores(n);
  std::vector<char> chosen(n, 0);
  for (std::int64_t round = 0; round < count; ++round) {
    std::size_t best = n;
    for (std::size_t i = 0; i < n; ++i) {
      if (chosen[i]) continue;
      if (round == 0 || is_seq) scores[i] = factors[i] * division.score_with(sentences[i]);
      if (best == n || scores[i] > scores[best]) best = i;
    }
    chosen[best] = 1;
    if (is_seq) division.choose(sentences[best]);
  }
  return chosen;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

std::vector<std::string> rouge_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
    if (is_letter(lower)) {
      words.back().push_back(lower);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

double rouge_f1(std::int64_t overlap, std::int64_t candidate, std::int64_t reference) {
  if (overlap == 0) return 0;
  const double precision = double(overlap) / double(candidate);
  const double recall = double(overlap) / double(reference);
  return 2 * precision * recall / (precision + recall);
}

SentenceWords numbered_words(const std::vector<std::string>& sentences) {
  SentenceWords numbered;
  std::unordered_map<std::string, int> numbers;
  for (const std::string& sentence : sentences) {
    std::vector<int>& words = numbered.emplace_back();
    for (const std::string& word : rouge_words(sentence)) {
      words.push_back(numbers.emplace(word, int(numbers.size())).first->second);
    }
  }
  return numbered;
}

std::vector<int> principal_sentences(const SentenceWords& sentences, std::int64_t count,
                                     GapStrategy strategy, double noise, Rng& rng) {
  const std::size_t n = sentences.size();
  SCALING_CHECK(1 <= count && std::size_t(count) <= n);
  std::vector<char> chosen(n, 0);
  if (strategy == GapStrategy::random) {
    chosen = random_choice(std::size_t(count), n, rng);
  } else if (strategy == GapStrategy::lead) {
    std::fill_n(chosen.begin(), count, char(1));
  } else {
    chosen = best_sentences(sentences, count, strategy, noise, rng);
  }
  std::vector<int> indices;
  for (std::size_t i = 0; i < n; ++i) {
    if (chosen[i]) indices.push_back(int(i));
  }
  return indices;
}

}  // namespace scaling
