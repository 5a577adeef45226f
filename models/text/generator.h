// Text of known entropy for machines without any: facts, which only a model with capacity learns,
// among Markov filler, which any model learns.
//
// The text is a sequence of items, each a fact or a word with equal probability. A fact is a key of
// three capitals, '=', its value of four letters and a space: the value follows from the key, but
// only by memory. A word and its space follow the last word by a first-order Markov chain. Items
// are told apart by their characters, so that -log p of a text is the sum over its items.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace scaling {

class Generator {
 public:
  static constexpr std::uint64_t kVersion = 1;  ///< of the text: to be raised when that changes
  static constexpr std::uint64_t kBytes = 20'000'000;  ///< of a corpus
  static constexpr int kFacts = 4096;
  static constexpr int kWords = 256;
  static constexpr int kSuccessors = 4;
  /// Chances of a word's successors, in twentieths.
  static constexpr std::array<int, kSuccessors> kChances = {10, 5, 3, 2};
  static constexpr double kFactShare = 0.5;

  struct Fact {
    std::string key, value;
    double probability;  ///< among facts; falls like 1 / (rank + 256)
  };

  /// The tables, always the same.
  Generator();

  const std::vector<Fact>& facts() const { return facts_; }
  const std::vector<std::string>& words() const { return words_; }
  /// Probability of word `next` after word `word`; the text begins after word 0.
  double follows(int word, int next) const;

  /// The first `bytes` bytes of the text, in pieces; the last item may be cut.
  void write(std::uint64_t bytes, const std::function<void(std::string_view)>& sink) const;

  /// Entropy in nats per byte: expected -log p of an item over its expected length. No model gets
  /// below it on text it has not seen, and one that sees only a window cannot quite reach it, since
  /// the window may begin within an item.
  double floor() const;

 private:
  std::vector<Fact> facts_;
  std::vector<std::uint32_t> cumulative_;  // of the facts' integer weights
  std::vector<std::string> words_;
  // Successor j of all words is a permutation of the words: so each is equally frequent in the long
  // run, and the floor is a plain mean.
  std::array<std::vector<int>, kSuccessors> successors_;
};

}  // namespace scaling
