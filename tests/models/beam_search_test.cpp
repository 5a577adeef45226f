// Beam search against every text of small languages, against rounds in plain loops, and with the
// real decoder against greedy decoding and the model's forward pass.
#include "models/transformer/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/model_harness.h"

namespace scaling {
namespace {

using Ids = std::vector<int>;

/// Log-probabilities of the next token after a text, which begins with the unseen 0.
using NextOf = std::function<std::vector<double>(const Ids& text)>;

/// A language whose rows remember their texts.
class Language : public NextToken {
 public:
  Language(int rows, std::int64_t vocab, NextOf next_of)
      : rows_(rows), vocab_(vocab), next_of_(std::move(next_of)), texts_(std::size_t(rows)) {}
  int rows() const override { return rows_; }
  std::int64_t vocab_size() const override { return vocab_; }
  void step(std::span<const int> source, std::span<const int> ids,
            std::vector<double>& log_probabilities) override {
    ++steps;
    std::vector<Ids> grown;
    log_probabilities.clear();
    for (std::size_t row = 0; row < texts_.size(); ++row) {
      grown.push_back(texts_[std::size_t(source[row])]);
      grown.back().push_back(ids[row]);
      const std::vector<double> next = next_of_(grown.back());
      log_probabilities.insert(log_probabilities.end(), next.begin(), next.end());
    }
    texts_ = std::move(grown);
  }
  int steps = 0;

 private:
  int rows_;
  std::int64_t vocab_;
  NextOf next_of_;
  std::vector<Ids> texts_;
};

std::vector<double> log_of(std::vector<double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight = std::log(weight / sum);
  return weights;
}

/// Drawn for every text, or if `memory` is not 0 for its last so many tokens.
NextOf drawn(std::int64_t vocab, std::uint64_t seed, std::size_t memory = 0) {
  return [=](const Ids& text) {
    std::size_t i = memory == 0 || memory >= text.size() ? 0 : text.size() - memory;
    std::uint64_t stream = 17;
    for (; i < text.size(); ++i) stream = stream * 1000003 + std::uint64_t(text[i]) + 1;
    Rng rng(seed, stream);
    std::vector<double> weights;
    for (std::int64_t id = 0; id < vocab; ++id) {
      weights.push_back(std::exp(double(rng.uniform(-2, 2))));
    }
    return log_of(weights);
  };
}

Ids joined(const Ids& prompt, const Ids& ids) {
  Ids all = prompt;
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

bool repeats_a_trigram(const Ids& text) {
  std::set<std::tuple<int, int, int>> seen;
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (!seen.emplace(text[i - 2], text[i - 1], text[i]).second) return true;
  }
  return false;
}

double log_probability_of(const NextOf& next_of, const Ids& prompt, const Ids& ids) {
  Ids text = joined(Ids{0}, prompt);
  double sum = 0;
  for (const int id : ids) {
    sum += next_of(text)[std::size_t(id)];
    text.push_back(id);
  }
  return sum;
}

double score_of(double log_probability, std::size_t tokens, const BeamOptions& options) {
  const double n = double(tokens), alpha = options.alpha;
  if (options.length_penalty == LengthPenalty::gnmt) {
    return log_probability / std::pow((5 + n) / 6, alpha);
  }
  if (options.length_penalty == LengthPenalty::power) return log_probability / std::pow(n, alpha);
  return log_probability;
}

void sort_by_score(std::vector<Hypothesis>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
}

/// Every text that begins with ids and is over, or as long as the longest.
void list_texts(const NextOf& next_of, std::int64_t vocab, const Ids& prompt,
                const BeamOptions& options, Ids& ids, std::vector<Hypothesis>& all) {
  if (options.block_trigrams && repeats_a_trigram(joined(prompt, ids))) return;
  const bool has_ended = !ids.empty() && ids.back() == options.end;
  if (has_ended || std::int64_t(ids.size()) == options.max_length) {
    const double log_probability = log_probability_of(next_of, prompt, ids);
    all.push_back(
        {ids, log_probability, score_of(log_probability, ids.size(), options), has_ended});
    return;
  }
  for (int id = 0; id < vocab; ++id) {
    ids.push_back(id);
    list_texts(next_of, vocab, prompt, options, ids, all);
    ids.pop_back();
  }
}

std::vector<Hypothesis> all_texts(const NextOf& next_of, std::int64_t vocab, const Ids& prompt,
                                  const BeamOptions& options) {
  std::vector<Hypothesis> all;
  Ids ids;
  list_texts(next_of, vocab, prompt, options, ids, all);
  sort_by_score(all);
  return all;
}

/// All rounds, and what is finished is only compared in the end.
std::vector<Hypothesis> plain_search(const NextOf& next_of, std::int64_t vocab, std::size_t rows,
                                     const Ids& prompt, const BeamOptions& options) {
  std::vector<Hypothesis> live(1), finished;
  for (std::int64_t round = 0; round < options.max_length; ++round) {
    std::vector<Hypothesis> grown;
    for (const Hypothesis& parent : live) {
      const std::vector<double> next = next_of(joined(Ids{0}, joined(prompt, parent.ids)));
      for (int id = 0; id < vocab; ++id) {
        Hypothesis child = parent;
        child.ids.push_back(id);
        child.log_probability += next[std::size_t(id)];
        child.has_ended = id == options.end;
        if (options.block_trigrams && repeats_a_trigram(joined(prompt, child.ids))) continue;
        grown.push_back(child);
      }
    }
    std::stable_sort(grown.begin(), grown.end(), [](const Hypothesis& a, const Hypothesis& b) {
      return a.log_probability > b.log_probability;
    });
    live.clear();
    for (const Hypothesis& child : grown) {
      if (live.size() == rows) break;
      (child.has_ended ? finished : live).push_back(child);
    }
  }
  finished.insert(finished.end(), live.begin(), live.end());
  for (Hypothesis& h : finished) h.score = score_of(h.log_probability, h.ids.size(), options);
  sort_by_score(finished);
  if (finished.size() > rows) finished.resize(rows);
  return finished;
}

void expect_same(const std::vector<Hypothesis>& ours, const std::vector<Hypothesis>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].ids, expected[i].ids) << i;
    EXPECT_NEAR(ours[i].log_probability, expected[i].log_probability, 1e-9) << i;
    EXPECT_NEAR(ours[i].score, expected[i].score, 1e-9) << i;
    EXPECT_EQ(ours[i].has_ended, expected[i].has_ended) << i;
  }
}

constexpr std::array<LengthPenalty, 3> kPenalties = {LengthPenalty::none, LengthPenalty::gnmt,
                                                     LengthPenalty::power};

std::string text_of(const BeamOptions& options) {
  return std::string(names_of(LengthPenalty())[std::size_t(options.length_penalty)]) + " alpha " +
         std::to_string(options.alpha) + " length " + std::to_string(options.max_length);
}

TEST(LengthPenalties, ByHand) {
  EXPECT_EQ(length_penalty(LengthPenalty::none, 3, 9), 1);
  EXPECT_EQ(length_penalty(LengthPenalty::gnmt, 1, 7), 2);
  EXPECT_NEAR(length_penalty(LengthPenalty::gnmt, 2, 13), 9, 1e-12);
  EXPECT_EQ(length_penalty(LengthPenalty::gnmt, 0.6, 1), 1);
  EXPECT_NEAR(length_penalty(LengthPenalty::power, 2, 3), 9, 1e-12);
  EXPECT_NEAR(length_penalty(LengthPenalty::power, 0.5, 16), 4, 1e-12);
  EXPECT_EQ(length_penalty(LengthPenalty::power, 0, 16), 1);
}

/// With a row for every text nothing is left out.
TEST(BeamSearch, WithRowsEnoughItIsExhaustive) {
  int changed = 0;  // cases where penalties prefer other texts
  for (const auto& [vocab, length] : std::vector<std::pair<int, int>>{{2, 5}, {3, 4}, {4, 3}}) {
    const int rows = int(std::lround(std::pow(vocab, length)));
    for (const std::uint64_t seed : {1, 2, 3}) {
      const NextOf next_of = drawn(vocab, seed);
      for (const Ids& prompt : {Ids{}, Ids{1, 0, 1}}) {
        std::set<Ids> bests;
        for (const LengthPenalty penalty : kPenalties) {
          for (const double alpha : {0.6, 1.2}) {
            const BeamOptions options{
                .length_penalty = penalty, .alpha = alpha, .max_length = length, .end = 1};
            SCOPED_TRACE(text_of(options) + " seed " + std::to_string(seed));
            Language language(rows, vocab, next_of);
            const auto expected = all_texts(next_of, vocab, prompt, options);
            ASSERT_LT(expected.size(), std::size_t(rows));
            expect_same(beam_search(language, prompt, options), expected);
            bests.insert(expected.front().ids);
          }
        }
        changed += bests.size() > 1;
      }
    }
  }
  EXPECT_GT(changed, 0);
}

TEST(BeamSearch, BlockedTrigramsAreLeftOutOfAllTexts) {
  const int vocab = 3;
  const NextOf next_of = drawn(vocab, 4);
  for (const LengthPenalty penalty : kPenalties) {
    for (const Ids& prompt : {Ids{}, Ids{2, 0, 2}}) {
      const BeamOptions all{.length_penalty = penalty, .max_length = 6, .end = 1};
      BeamOptions blocked = all;
      blocked.block_trigrams = true;
      const auto expected = all_texts(next_of, vocab, prompt, blocked);
      const std::size_t unblocked = all_texts(next_of, vocab, prompt, all).size();
      EXPECT_LT(expected.size(), unblocked);
      Language language(int(unblocked) + 1, vocab, next_of);
      expect_same(beam_search(language, prompt, blocked), expected);
    }
  }
}

/// Stopping early loses nothing, and does stop early.
TEST(BeamSearch, IsItsRoundsInPlainLoops) {
  const int vocab = 5;
  int early = 0;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const NextOf next_of = drawn(vocab, seed, /*memory=*/2);
    for (const int rows : {1, 2, 3, 6}) {
      for (const LengthPenalty penalty : kPenalties) {
        for (const double alpha : {0.0, 0.6, 3.0}) {
          for (const bool block : {false, true}) {
            const Ids prompt = {3, 4};
            const BeamOptions options{.length_penalty = penalty,
                                      .alpha = alpha,
                                      .max_length = 9,
                                      .end = 1,
                                      .block_trigrams = block};
            SCOPED_TRACE(text_of(options) + " rows " + std::to_string(rows));
            Language language(rows, vocab, next_of);
            expect_same(beam_search(language, prompt, options),
                        plain_search(next_of, vocab, std::size_t(rows), prompt, options));
            EXPECT_LE(language.steps, 1 + 2 + 8);
            early += language.steps < 1 + 2 + 8;
          }
        }
      }
    }
  }
  EXPECT_GT(early, 0);
}

TEST(BeamSearch, ALoopIsLeftWhereTrigramsAreBlocked) {
  const int vocab = 6;
  const Ids prompt = {5, 2};
  int looped = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const bool block : {false, true}) {
      Language language(3, vocab, drawn(vocab, seed, /*memory=*/1));
      const BeamOptions options{.length_penalty = LengthPenalty::power,
                                .alpha = 2,
                                .max_length = 30,
                                .end = 1,
                                .block_trigrams = block};
      for (const Hypothesis& found : beam_search(language, prompt, options)) {
        const bool repeats = repeats_a_trigram(joined(prompt, found.ids));
        EXPECT_FALSE(block && repeats);
        looped += repeats;
      }
    }
  }
  EXPECT_GT(looped, 0);
}

/// Where nearly everything ends at once, what is finished leaves its row to another.
TEST(BeamSearch, LosesNoHypothesisWhereAllEnd) {
  const NextOf next_of = [](const Ids&) { return log_of({0.02, 0.94, 0.03, 0.01}); };
  Language language(4, 4, next_of);
  const BeamOptions options{.max_length = 20, .end = 1};
  const auto found = beam_search(language, {}, options);
  ASSERT_EQ(found.size(), 4u);
  for (const Hypothesis& h : found) EXPECT_TRUE(h.has_ended);
  EXPECT_EQ(found[0].ids, Ids({1}));
  EXPECT_EQ(found[1].ids, Ids({2, 1}));
  EXPECT_EQ(found[2].ids, Ids({0, 1}));
  EXPECT_EQ(found[3].ids, Ids({3, 1}));
  EXPECT_LT(language.steps, 20);
  // The end of the first round takes neither of two rows.
  Language narrow(2, 4, next_of);
  const auto best = beam_search(narrow, {}, options);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[1].ids, Ids({2, 1}));
}

TEST(BeamSearch, TextsThatCannotGoOnAreCutOff) {
  const double impossible = -std::numeric_limits<double>::infinity();
  // Nothing but the end.
  Language only_end(3, 1, [](const Ids&) { return std::vector<double>{0.0}; });
  const auto ended = beam_search(only_end, {}, {.max_length = 5, .end = 0});
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].ids, Ids({0}));
  EXPECT_TRUE(ended[0].has_ended);
  // After a 2 nothing can come.
  const NextOf next_of = [&](const Ids& text) {
    if (text.back() == 2) return std::vector<double>(3, impossible);
    return std::vector<double>{std::log(0.1), impossible, std::log(0.9)};
  };
  Language stuck(2, 3, next_of);
  const auto found = beam_search(stuck, {}, {.max_length = 4, .end = 1});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].ids, Ids({2}));
  EXPECT_FALSE(found[0].has_ended);
  EXPECT_EQ(found[1].ids, Ids({0, 2}));
  // What is at its longest.
  Language longest(2, 3, next_of);
  const auto cut = beam_search(longest, Ids{0}, {.max_length = 1, .end = 1});
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[1].ids, Ids({0}));
  EXPECT_NEAR(cut[1].log_probability, std::log(0.1), 1e-12);
}

TEST(BeamSearch, EqualOnesGoByTheirIds) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    Language language(3, 4, [](const Ids&) { return log_of({1, 1, 1, 1}); });
    const auto found = beam_search(language, {}, {.max_length = 2, .end = 3});
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].ids, Ids({0, 0}));
    EXPECT_EQ(found[1].ids, Ids({0, 1}));
    EXPECT_EQ(found[2].ids, Ids({0, 2}));
  }
}

TEST(BeamSearch, AnInterruptionCutsOff) {
  Language language(2, 4, drawn(4, 1));
  int asked = 0;
  const auto found = beam_search(
      language, {},
      {.max_length = 50, .end = 9, .is_interrupted = [&asked] { return ++asked == 3; }});
  ASSERT_EQ(found.size(), 2u);
  for (const Hypothesis& h : found) {
    EXPECT_EQ(h.ids.size(), 3u);
    EXPECT_FALSE(h.has_ended);
  }
}

// -- with the real decoder ------------------------------------------------------------------------

const Ids kSource = {5, 9, 0, 17, 3};
const Ids kPrompt = {7, 30};
constexpr std::int64_t kLength = 12;

/// An encoder-decoder, a decoder alone and a Terraformer, of layers that remember what went before
/// in different ways.
std::vector<ModelConfig> configs() {
  ModelConfig both = small_config();
  both.embedding_scale = 4;
  both.cross_projection = "mult_conv";
  ModelConfig alone = small_config();
  alone.embedding_scale = 4;
  alone.encoder_layers = 0;
  alone.attention = "window";
  alone.projection = "conv";
  alone.recurrence = "sru";
  ModelConfig terraformer = small_config();
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"embedding_scale", "4"},
                                                        {"residual_stack", "reversible"},
                                                        {"attention_layers", "2"},
                                                        {"source", "concatenated"},
                                                        {"attention", "performer"},
                                                        {"projection", "mult_conv"},
                                                        {"recurrence", "sru"}}) {
    set_field(terraformer, name, value);
  }
  return {both, alone, terraformer};
}

Decoder decoder_of(const Transformer& model, Team& team, int rows) {
  return Decoder(model, find_kernel_set("simd"), team, rows, std::int64_t(kPrompt.size()) + kLength,
                 std::int64_t(kSource.size()));
}

/// What the decoder takes for the likeliest token each time, after the prompt.
Ids greedy(Decoder& decoder) {
  decoder.begin(kSource);
  Ids given = {0}, next, all;
  for (const int id : kPrompt) {
    decoder.step(given, next);
    given = {id};
  }
  while (std::int64_t(all.size()) < kLength) {
    decoder.step(given, next);
    all.push_back(next[0]);
    given = next;
  }
  return all;
}

std::vector<Hypothesis> searched(Decoder& decoder, const BeamOptions& options) {
  decoder.begin(kSource);
  DecoderNextToken next_token(decoder);
  return beam_search(next_token, kPrompt, options);
}

TEST(BeamSearchOfADecoder, OneRowIsGreedyDecoding) {
  for (const ModelConfig& config : configs()) {
    const auto model = decodable(config);
    Team team(2);
    Decoder decoder = decoder_of(*model, team, 1);
    const Ids expected = greedy(decoder);
    // With an end that never comes, and with ends that do.
    for (const int end : {int(config.vocab_size), expected[0], expected[5], expected.back()}) {
      const auto first = std::find(expected.begin(), expected.end(), end);
      const bool has_ended = first != expected.end();
      const auto found = searched(decoder, {.max_length = kLength, .end = end});
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].ids, Ids(expected.begin(), has_ended ? first + 1 : first));
      EXPECT_EQ(found[0].has_ended, has_ended);
    }
  }
}

/// The sum over ids by the definition of the model.
double log_probability_of(const Transformer& model, const Ids& ids) {
  const Mat logits = model.forward(kSource, joined(kPrompt, ids));
  double sum = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto row = logits.row(std::int64_t(kPrompt.size() + i)).cast<double>().eval();
    const double largest = row.maxCoeff();
    const double log_sum = std::log((row.array() - largest).exp().sum()) + largest;
    sum += row(ids[i]) - log_sum;
  }
  return sum;
}

TEST(BeamSearchOfADecoder, LogProbabilitiesAreForwards) {
  for (const ModelConfig& config : configs()) {
    const auto model = decodable(config);
    int end = 0;  // that some texts come to
    {
      Team team(1);
      Decoder decoder = decoder_of(*model, team, 1);
      end = greedy(decoder)[5];
    }
    for (const int threads : {1, 2}) {
      Team team(threads);
      Decoder decoder = decoder_of(*model, team, 4);
      for (const bool block : {false, true}) {
        const BeamOptions options{.length_penalty = LengthPenalty::gnmt,
                                  .max_length = kLength,
                                  .end = end,
                                  .block_trigrams = block};
        const auto found = searched(decoder, options);
        ASSERT_EQ(found.size(), 4u);
        std::set<Ids> texts;
        for (const Hypothesis& h : found) {
          texts.insert(h.ids);
          EXPECT_NEAR(h.log_probability, log_probability_of(*model, h.ids),
                      1e-4 * double(h.ids.size()));
          EXPECT_DOUBLE_EQ(h.score, score_of(h.log_probability, h.ids.size(), options));
          EXPECT_EQ(h.has_ended, h.ids.back() == options.end);
          EXPECT_FALSE(block && repeats_a_trigram(joined(kPrompt, h.ids)));
        }
        EXPECT_EQ(texts.size(), 4u);
      }
    }
  }
}

TEST(BeamSearchOfADecoder, RefusesLogitsThatAreNotFinite) {
  const auto model = decodable(configs()[0]);
  model->visit_parameters([](Parameter& p) {
    if (p.name == "loss.bias") p.set(0, 3, std::numeric_limits<float>::quiet_NaN());
  });
  Team team(1);
  Decoder decoder = decoder_of(*model, team, 2);
  try {
    searched(decoder, {.max_length = kLength, .end = 1});
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("position 0 are not finite"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace scaling
