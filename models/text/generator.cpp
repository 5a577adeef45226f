// Tables and text from counter-based draws: the same on every machine.
#include "models/text/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "kernels/random.h"

namespace scaling {
namespace {

constexpr std::uint64_t kSeed = 20211;
enum Stream : std::uint64_t { kTables = 1, kText = 2 };

std::string letters(Rng& rng, std::uint32_t count, char first) {
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) {
    text.push_back(static_cast<char>(first + static_cast<char>(rng.below(26))));
  }
  return text;
}

}  // namespace

Generator::Generator() {
  Rng rng(kSeed, kTables);
  std::set<std::string> used;
  std::uint32_t total = 0;
  while (int(facts_.size()) < kFacts) {
    std::string key = letters(rng, 3, 'A');
    if (!used.insert(key).second) continue;
    total += std::uint32_t((1 << 20) / (int(facts_.size()) + 256));
    cumulative_.push_back(total);
    facts_.push_back({std::move(key), letters(rng, 4, 'a'), 0});
  }
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    const std::uint32_t below = i == 0 ? 0 : cumulative_[i - 1];
    facts_[i].probability = double(cumulative_[i] - below) / double(total);
  }

  while (int(words_.size()) < kWords) {
    const std::uint32_t length = 2 + rng.below(6);
    std::string word = letters(rng, length, 'a');
    if (used.insert(word).second) words_.push_back(std::move(word));
  }
  for (std::vector<int>& next : successors_) {
    next.resize(kWords);
    std::iota(next.begin(), next.end(), 0);
    for (std::uint32_t i = kWords - 1; i > 0; --i) std::swap(next[i], next[rng.below(i + 1)]);
  }
}

double Generator::follows(int word, int next) const {
  int chances = 0;
  for (std::size_t j = 0; j < kSuccessors; ++j) {
    if (successors_[j][std::size_t(word)] == next) chances += kChances[j];
  }
  return chances / 20.0;
}

void Generator::write(std::uint64_t bytes,
                      const std::function<void(std::string_view)>& sink) const {
  constexpr std::size_t kPiece = std::size_t(1) << 16;
  Rng rng(kSeed, kText);
  std::string text;
  std::size_t word = 0;
  for (std::uint64_t left = bytes; left > 0;) {
    if (rng.bits() >> 31) {
      const std::uint32_t draw = rng.below(cumulative_.back());
      const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end(), draw);
      const Fact& fact = facts_[std::size_t(found - cumulative_.begin())];
      text += fact.key;
      text += '=';
      text += fact.value;
    } else {
      int draw = int(rng.below(20));
      std::size_t j = 0;
      while (draw >= kChances[j]) draw -= kChances[j++];
      word = std::size_t(successors_[j][word]);
      text += words_[word];
    }
    text += ' ';
    if (text.size() < kPiece && text.size() < left) continue;
    if (text.size() > left) text.resize(std::size_t(left));
    left -= text.size();
    sink(text);
    text.clear();
  }
}

double Generator::floor() const {
  double fact_nats = -std::log(kFactShare);
  double fact_bytes = 0;
  for (const Fact& fact : facts_) {
    fact_nats -= fact.probability * std::log(fact.probability);
    fact_bytes += fact.probability * double(fact.key.size() + 1 + fact.value.size() + 1);
  }
  double word_nats = -std::log(1 - kFactShare);
  double word_bytes = 0;
  for (std::size_t word = 0; word < kWords; ++word) {
    word_bytes += double(words_[word].size() + 1) / kWords;
    // Successors that coincide count once, with their joint chance.
    std::set<int> distinct;
    for (const auto& next : successors_) distinct.insert(next[word]);
    for (const int next : distinct) {
      const double p = follows(int(word), next);
      word_nats -= p * std::log(p) / kWords;
    }
  }
  return (kFactShare * fact_nats + (1 - kFactShare) * word_nats) /
         (kFactShare * fact_bytes + (1 - kFactShare) * word_bytes);
}

}  // namespace scaling
