// A text cut at its sentences, some of which go into the target.
#include "models/tasks/gap_sentences.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/tasks/choices.h"
#include "models/tasks/masked.h"
#include "models/tasks/principal_sentences.h"
#include "models/tasks/text_task.h"
#include "models/text/boundaries.h"

namespace scaling {
namespace {

constexpr int kEnd = 1;
constexpr const char* kKnobs[] = {"gap_strategy", "gap_share_min", "gap_share_max", "gap_noise",
                                  "gap_unmasked"};
/// So many texts are looked at for sentences.
constexpr std::uint64_t kLookedAt = 256;

std::span<const int> without_padding(std::span<const int> ids) {
  return ids.first(std::size_t(std::find(ids.begin(), ids.end(), 0) - ids.begin()));
}

class GapSentences : public TextTask {
 public:
  GapSentences(const TrainConfig& config, std::int64_t vocab_size, std::unique_ptr<TextStore> text)
      : TextTask(config, needs_of_gap_sentences(config), vocab_size, std::move(text)),
        boundaries_(store().tokenizer()) {
    require_sentences();
  }

  std::string description() const override {
    std::uint64_t cut = 0;
    Batch batch;
    for (std::int64_t index = 0; index < validation_batches(); ++index) {
      validation_batch(0, index, batch);
      for (std::int64_t e = 1; e <= batch.examples; ++e) {
        const auto last = std::size_t(e * batch.input_length - 1);
        cut += batch.weights[last] > 0 && batch.target[last] != kEnd;
      }
    }
    return TextTask::description() + "; " + std::to_string(cut) + " of " +
           plural(evaluated(), "evaluated target") + " cut at target_length " +
           std::to_string(config().target_length);
  }

 private:
  double make_example(std::span<const int> ids, Rng& rng, const Example& to) const override {
    const auto text = without_padding(ids);
    std::vector<int> starts = boundaries_.of(text).sentences;
    const auto sentences = std::int64_t(starts.size());
    starts.push_back(int(text.size()));
    const auto sentence = [&](std::size_t i) {
      return text.subspan(std::size_t(starts[i]), std::size_t(starts[i + 1] - starts[i]));
    };
    std::vector<std::string> words;
    for (std::size_t i = 0; i < std::size_t(sentences); ++i) {
      words.push_back(store().tokenizer().decode({sentence(i).begin(), sentence(i).end()}));
    }
    const double least = config().gap_share_min, most = config().gap_share_max;
    const double share = most > least ? least + (most - least) * double(rng.uniform(0, 1)) : least;
    const std::vector<int> gaps =
        principal_sentences(numbered_words(words), gap_count(share, sentences),
                            config().gap_strategy, config().gap_noise, rng);

    std::vector<int> source, target;
    for (std::size_t i = 0; i < std::size_t(sentences); ++i) {
      const bool is_gap = std::binary_search(gaps.begin(), gaps.end(), int(i));
      if (is_gap) target.insert(target.end(), sentence(i).begin(), sentence(i).end());
      if (is_gap && !happens(config().gap_unmasked, rng)) {
        source.push_back(kMaskId);
      } else {
        source.insert(source.end(), sentence(i).begin(), sentence(i).end());
      }
    }
    source.push_back(kEnd);
    target.push_back(kEnd);
    std::copy(source.begin(), source.end(), to.source.begin());
    const std::size_t told = std::min(target.size(), to.target.size());
    std::copy_n(target.begin(), told, to.target.begin());
    std::fill_n(to.weights.begin(), told, 1.0f);
    shift_right(to.target, to.input);
    double bytes = 0;
    for (std::size_t i = 0; i < told; ++i) bytes += store().tokenizer().bytes_of(target[i]);
    return bytes;
  }

  void require_sentences() const {
    const std::uint64_t texts = std::min(store().validation_chunks(), kLookedAt);
    std::vector<int> ids(std::size_t(config().length));
    for (std::uint64_t i = 0; i < texts; ++i) {
      store().read(store().validation_chunk(i), ids.data());
      if (boundaries_.of(without_padding(ids)).sentences.size() > 1) return;
    }
    const std::string& name = config().validation.empty() ? config().corpus : config().validation;
    throw UserError("text '" + name + "' has no sentences for the task gap_sentences: none of " +
                    plural(texts, "validation text") + " of at most " +
                    std::to_string(config().length) +
                    " tokens has two, ended by . ! ? and white space or by a line end; give text "
                    "with sentences, or a larger length");
  }

  Boundaries boundaries_;
};

}  // namespace

std::int64_t gap_count(double share, std::int64_t sentences) {
  SCALING_CHECK(sentences >= 1);
  const auto wanted = std::int64_t(std::floor(share * double(sentences) + 0.5));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, sentences - 1));
}

Needs needs_of_gap_sentences(const TrainConfig& config) {
  require_at_least("target_length", config.target_length, 2);
  require_within("gap_share_min", config.gap_share_min, 0, 1);
  require_within("gap_share_max", config.gap_share_max, 0, 1);
  if (config.gap_share_max < config.gap_share_min) {
    throw UserError("gap_share_max " + print_value(config.gap_share_max) +
                    " is below gap_share_min " + print_value(config.gap_share_min) +
                    "; give two equal ones for a fixed share, 0.15 and 0.45 for the mixed variant");
  }
  require_within("gap_noise", config.gap_noise, 0, 1);
  const bool has_scores =
      config.gap_strategy != GapStrategy::random && config.gap_strategy != GapStrategy::lead;
  if (config.gap_noise > 0 && !has_scores) {
    throw UserError("gap_noise " + print_value(config.gap_noise) +
                    " is on scores, and gap_strategy " + print_value(config.gap_strategy) +
                    " has none; set gap_noise 0 or another strategy, such as ind_orig");
  }
  require_within("gap_unmasked", config.gap_unmasked, 0, 1);
  const Lengths lengths{config.length + 1, config.target_length};
  return {.text = TextStore::Layout::documents,
          .trained = lengths,
          .evaluated = lengths,
          .least_vocab_size = kMaskId + 2,
          .length_knobs = "length + 1, target_length",
          .recipe = recipe_of(config, kKnobs)};
}

std::unique_ptr<Task> make_gap_sentences(const TrainConfig& config, std::int64_t vocab_size,
                                         std::unique_ptr<TextStore> text) {
  return std::make_unique<GapSentences>(config, vocab_size, std::move(text));
}

}  // namespace scaling
