// The noising functions one after another, and the examples that they make.
#include "models/tasks/denoising.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/check.h"
#include "models/tasks/choices.h"
#include "models/tasks/masked.h"
#include "models/tasks/text_task.h"

namespace scaling {
namespace {

constexpr int kEnd = 1;
constexpr const char* kKnobs[] = {"sentence_permutation", "text_infilling", "infilling_mean",
                                  "token_masking",        "token_deletion", "document_rotation"};
/// Outside, spans are hardly ever longer than 0, or exp underflows before long.
constexpr double kLeastMean = 0.1, kMostMean = 100;

/// The place in the text of each token of the permuted text.
std::vector<int> permuted(std::size_t tokens, const std::vector<int>& sentences, double share,
                          Rng& rng) {
  const std::size_t n = sentences.size();
  const std::vector<char> moves =
      random_choice(std::size_t(noise_budget(share, std::int64_t(n))), n, rng);
  std::vector<std::size_t> moved;
  for (std::size_t s = 0; s < n; ++s) {
    if (moves[s]) moved.push_back(s);
  }
  shuffle(moved, rng);
  std::vector<int> order;
  std::size_t next = 0;
  for (std::size_t s = 0; s < n; ++s) {
    const std::size_t from = moves[s] ? moved[next++] : s;
    const int end = from + 1 < n ? sentences[from + 1] : int(tokens);
    for (int token = sentences[from]; token < end; ++token) order.push_back(token);
  }
  return order;
}

struct Spans {
  std::vector<std::int64_t> lengths;  // in words
  std::int64_t empty = 0;
};

Spans random_spans(std::int64_t words, const Noise& noise, Rng& rng) {
  Spans spans;
  for (std::int64_t left = noise_budget(noise.text_infilling, words); left > 0;) {
    const std::int64_t length = std::min(left, random_poisson(noise.infilling_mean, rng));
    left -= length;
    if (length > 0) {
      spans.lengths.push_back(length);
    } else {
      ++spans.empty;
    }
  }
  // Otherwise the one that was cut would always come last.
  shuffle(spans.lengths, rng);
  return spans;
}

/// words: first tokens of the permuted text's words, and behind them the number of its tokens.
std::vector<NoisedText::Read> with_spans(std::span<const int> ids, const NoisedText& text,
                                         const std::vector<int>& words, const Spans& spans,
                                         Rng& rng) {
  std::vector<NoisedText::Read> read;
  const auto sum = std::accumulate(spans.lengths.begin(), spans.lengths.end(), std::int64_t(0));
  const std::size_t kept = words.size() - 1 - std::size_t(sum);
  std::size_t word = 0, span = 0;
  for (const char is_span : random_choice(spans.lengths.size(), spans.lengths.size() + kept, rng)) {
    const std::size_t after = word + (is_span ? std::size_t(spans.lengths[span++]) : 1);
    const int first = words[word], end = words[after];
    if (is_span) {
      read.push_back({kMaskId, first, end - first});
    } else {
      for (int token = first; token < end; ++token) {
        read.push_back({ids[std::size_t(text.order[std::size_t(token)])], token, 1});
      }
    }
    word = after;
  }
  return read;
}

/// Masks or deletes `wanted` tokens of those that are still themselves, or all of them.
void strike(std::vector<NoisedText::Read>& read, std::int64_t wanted, bool is_deleted, Rng& rng) {
  if (wanted == 0) return;
  const auto is_kept = [](const NoisedText::Read& r) { return r.id != kMaskId; };
  const auto kept = std::count_if(read.begin(), read.end(), is_kept);
  const std::vector<char> struck =
      random_choice(std::size_t(std::min<std::int64_t>(wanted, kept)), std::size_t(kept), rng);
  std::size_t at = 0;
  std::vector<NoisedText::Read> rest;
  for (NoisedText::Read& r : read) {
    const bool hit = is_kept(r) && struck[at++];
    if (hit && is_deleted) continue;
    if (hit) r.id = kMaskId;
    rest.push_back(r);
  }
  read = std::move(rest);
}

class Denoising : public TextTask {
 public:
  Denoising(const TrainConfig& config, std::int64_t vocab_size, std::unique_ptr<TextStore> text)
      : TextTask(config, needs_of_denoising(config), vocab_size, std::move(text)),
        boundaries_(store().tokenizer()),
        noise_{.sentence_permutation = config.sentence_permutation,
               .text_infilling = config.text_infilling,
               .infilling_mean = config.infilling_mean,
               .token_masking = config.token_masking,
               .token_deletion = config.token_deletion,
               .document_rotation = config.document_rotation} {}

 private:
  double make_example(std::span<const int> ids, Rng& rng, const Example& to) const override {
    const auto text = ids.first(std::size_t(std::find(ids.begin(), ids.end(), 0) - ids.begin()));
    const NoisedText noised =
        add_noise(text, boundaries_.of(text), noise_, to.source.size() - 1, rng);
    std::transform(noised.read.begin(), noised.read.end(), to.source.begin(),
                   [](const NoisedText::Read& r) { return r.id; });
    to.source[noised.read.size()] = kEnd;
    std::copy(text.begin(), text.end(), to.target.begin());
    to.target[text.size()] = kEnd;
    std::fill_n(to.weights.begin(), text.size() + 1, 1.0f);
    shift_right(to.target, to.input);
    double bytes = 0;
    for (const int id : text) bytes += store().tokenizer().bytes_of(id);
    return bytes;
  }

  Boundaries boundaries_;
  Noise noise_;
};

}  // namespace

std::int64_t noise_budget(double share, std::int64_t units) {
  constexpr double kRounding = 1e-9;
  return std::int64_t(std::ceil(share * double(units) - kRounding));
}

std::int64_t random_poisson(double mean, Rng& rng) {
  const double draw = double(rng.bits()) * 0x1p-32;
  double chance = std::exp(-mean), below = chance;
  std::int64_t value = 0;
  while (draw >= below && chance > 0) {
    ++value;
    chance *= mean / double(value);
    below += chance;
  }
  return value;
}

NoisedText add_noise(std::span<const int> ids, const Boundaries::Starts& starts, const Noise& noise,
                     std::size_t most, Rng& rng) {
  SCALING_CHECK(!ids.empty() && ids.size() <= most);
  NoisedText text;
  text.order = permuted(ids.size(), starts.sentences, noise.sentence_permutation, rng);

  // Sentences consist of words, so that these move with them.
  std::vector<char> begins_word(ids.size(), 0);
  for (const int word : starts.words) begins_word[std::size_t(word)] = 1;
  std::vector<int> words;
  for (std::size_t token = 0; token < ids.size(); ++token) {
    if (begins_word[std::size_t(text.order[token])]) words.push_back(int(token));
  }
  const auto tokens = std::int64_t(ids.size());
  const Spans spans = random_spans(std::int64_t(words.size()), noise, rng);
  words.push_back(int(tokens));
  text.read = with_spans(ids, text, words, spans, rng);
  strike(text.read, noise_budget(noise.token_masking, tokens), false, rng);
  strike(text.read, noise_budget(noise.token_deletion, tokens), true, rng);

  for (std::int64_t i = 0; i < spans.empty && text.read.size() < most; ++i) {
    const std::uint32_t at = rng.below(std::uint32_t(text.read.size()) + 1);
    const int first = at < text.read.size() ? text.read[at].first : int(tokens);
    text.read.insert(text.read.begin() + at, {kMaskId, first, 0});
  }
  if (!text.read.empty() && happens(noise.document_rotation, rng)) {
    const std::uint32_t first = rng.below(std::uint32_t(text.read.size()));
    std::rotate(text.read.begin(), text.read.begin() + first, text.read.end());
  }
  return text;
}

Needs needs_of_denoising(const TrainConfig& config) {
  require_within("sentence_permutation", config.sentence_permutation, 0, 1);
  require_within("text_infilling", config.text_infilling, 0, 1);
  require_within("infilling_mean", config.infilling_mean, kLeastMean, kMostMean);
  require_within("token_masking", config.token_masking, 0, 1);
  require_within("token_deletion", config.token_deletion, 0, 1);
  require_within("document_rotation", config.document_rotation, 0, 1);
  const double struck = config.text_infilling + config.token_masking + config.token_deletion;
  if (struck > 1 + 1e-9) {
    throw UserError("text_infilling " + print_value(config.text_infilling) + ", token_masking " +
                    print_value(config.token_masking) + " and token_deletion " +
                    print_value(config.token_deletion) + " are " + print_value(struck) +
                    " of a text together; give shares whose sum is at most 1");
  }
  const Lengths lengths{config.length + 1, config.length + 1};
  return {.text = TextStore::Layout::documents,
          .trained = lengths,
          .evaluated = lengths,
          .least_vocab_size = kMaskId + 2,
          .length_knobs = "length + 1",
          .recipe = recipe_of(config, kKnobs)};
}

std::unique_ptr<Task> make_denoising(const TrainConfig& config, std::int64_t vocab_size,
                                     std::unique_ptr<TextStore> text) {
  return std::make_unique<Denoising>(config, vocab_size, std::move(text));
}

}  // namespace scaling
