// Beam search: the likeliest texts that a model would write, looked for among a few hypotheses at a
// time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/transformer/decoder.h"

namespace scaling {

/// What a hypothesis's log-probability is divided by, its score: a sum over more tokens is lower,
/// so that without it short texts win. gnmt is the form of Wu et al. 2016, power that of common
/// libraries. For n tokens:
///   none   1
///   gnmt   ((5 + n) / 6)^alpha
///   power  n^alpha
enum class LengthPenalty { none, gnmt, power };
constexpr std::array<const char*, 3> names_of(LengthPenalty) { return {"none", "gnmt", "power"}; }

/// tokens: at least 1.
double length_penalty(LengthPenalty form, double alpha, std::int64_t tokens);

struct BeamOptions {
  LengthPenalty length_penalty = LengthPenalty::none;
  double alpha = 0.6;
  std::int64_t max_length = 1;  ///< tokens of a hypothesis, its end included; then it is cut off
  int end = 1;                  ///< token after which a text is over
  /// No three tokens twice in a text, the prompt included: a token that would repeat three is not
  /// considered. The end always is.
  bool block_trigrams = false;
  /// Asked before each further token; true cuts off all hypotheses. Null: nobody asks.
  std::function<bool()> is_interrupted = {};
};

struct Hypothesis {
  std::vector<int> ids;        ///< after the prompt; the end is the last of one that has_ended
  double log_probability = 0;  ///< nats, the sum over ids
  double score = 0;            ///< divided by the length penalty
  bool has_ended = false;      ///< else it was cut off
};

/// What beam search asks a model: several texts that grow by a token at a time, one a row.
class NextToken {
 public:
  virtual ~NextToken() = default;
  virtual int rows() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// Row i goes on from what row source[i] was and takes in ids[i]. log_probabilities, resized to
  /// (rows, vocab_size): of each token after that; minus infinity for what cannot be.
  virtual void step(std::span<const int> source, std::span<const int> ids,
                    std::vector<double>& log_probabilities) = 0;
};

/// A decoder's, from the position where it is. Throws UserError if a step's logits are not finite.
class DecoderNextToken : public NextToken {
 public:
  explicit DecoderNextToken(Decoder& decoder) : decoder_(decoder) {}
  int rows() const override { return decoder_.tokens(); }
  std::int64_t vocab_size() const override {
    return std::int64_t(decoder_.logits().size()) / decoder_.tokens();
  }
  void step(std::span<const int> source, std::span<const int> ids,
            std::vector<double>& log_probabilities) override;

 private:
  Decoder& decoder_;
  std::vector<int> ids_, next_;
};

/// The hypotheses of highest score that were found, as many as the model has rows or all there are,
/// the best first. The model is at the start of its texts and takes a 0, the prompt and up to
/// max_length - 1 tokens more.
///
/// In each round the likeliest continuations of all hypotheses are gone through in order, of equal
/// ones those of the likelier hypothesis and then of the lower id first: one by the end is
/// finished, the others go on, until there is one for every row. So what is finished takes no row
/// from what goes on. The search is over when every row has a finished hypothesis and nothing that
/// goes on could still pass the worst of them, or at max_length, where hypotheses that have not
/// ended stand beside those that have. One row without a penalty is greedy decoding.
std::vector<Hypothesis> beam_search(NextToken& model, std::span<const int> prompt,
                                    const BeamOptions& options);

}  // namespace scaling
