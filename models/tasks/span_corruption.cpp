// Kept spans and noise spans in turn, lengths drawn as random compositions.
#include "models/tasks/span_corruption.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/check.h"
#include "models/tasks/text_task.h"

namespace scaling {
namespace {

constexpr const char* kKnobs[] = {"noise_density"};

class SpanCorruption : public TextTask {
 public:
  SpanCorruption(const TrainConfig& config, std::int64_t vocab_size,
                 std::unique_ptr<TextStore> text)
      : TextTask(config, needs_of_span_corruption(config), vocab_size, std::move(text)),
        density_(config.noise_density) {}

 private:
  double make_example(std::span<const int> ids, Rng& rng, const Example& to) const override {
    const auto length = std::find(ids.begin(), ids.end(), 0) - ids.begin();
    CorruptedText corrupted;
    corrupt_spans(ids.data(), length, vocab_size(), rng, corrupted, density_);
    const std::vector<int>&source = corrupted.input, &target = corrupted.target;
    std::copy_n(source.begin(), std::min(source.size(), to.source.size()), to.source.begin());
    const std::size_t told = std::min(target.size(), to.target.size());
    std::copy_n(target.begin(), told, to.target.begin());
    std::fill_n(to.weights.begin(), told, 1.0f);
    shift_right(to.target, to.input);
    double bytes = 0;
    for (std::size_t i = 0; i < told; ++i) {
      if (corrupted.taken[i]) bytes += store().tokenizer().bytes_of(target[i]);
    }
    return bytes;
  }

  double density_;
};

}  // namespace

SpanCounts span_counts(std::int64_t n, double density) {
  SCALING_CHECK(n >= 2 && density <= kMostNoiseDensity);
  // Half to even; where density * n should be half, its double is.
  const auto noise = std::clamp<std::int64_t>(std::llrint(density * double(n)), 1, n - 1);
  return {noise, std::clamp<std::int64_t>((noise + 1) / 3, 1, n - noise)};
}

void random_composition(std::int64_t n, std::int64_t parts, Rng& rng, std::vector<int>& out) {
  SCALING_CHECK(1 <= parts && parts <= n);
  out.clear();
  // parts - 1 of the n - 1 gaps, every choice equally likely: gap after gap, taken with probability
  // wanted / left.
  std::int64_t wanted = parts - 1;
  int length = 1;
  for (std::int64_t left = n - 1; left > 0; --left) {
    if (std::int64_t(rng.below(std::uint32_t(left))) < wanted) {
      --wanted;
      out.push_back(length);
      length = 0;
    }
    ++length;
  }
  out.push_back(length);
}

void corrupt_spans(const int* ids, std::int64_t n, std::int64_t vocab_size, Rng& rng,
                   CorruptedText& out, double density) {
  const SpanCounts counts = span_counts(n, density);
  random_composition(n - counts.noise, counts.spans, rng, out.kept_lengths);
  random_composition(counts.noise, counts.spans, rng, out.noise_lengths);
  out.input.clear();
  out.target.clear();
  out.taken.clear();
  for (std::size_t span = 0; span < out.kept_lengths.size(); ++span) {
    const int sentinel = int(vocab_size) - 1 - int(span);
    const int kept = out.kept_lengths[span];
    const int noise = out.noise_lengths[span];
    out.input.insert(out.input.end(), ids, ids + kept);
    out.input.push_back(sentinel);
    ids += kept;
    out.target.push_back(sentinel);
    out.taken.push_back(0);
    out.target.insert(out.target.end(), ids, ids + noise);
    out.taken.insert(out.taken.end(), std::size_t(noise), 1);
    ids += noise;
  }
  out.input.push_back(1);
  out.target.push_back(1);
  out.taken.push_back(0);
}

Needs needs_of_span_corruption(const TrainConfig& config) {
  require_at_least("target_length", config.target_length, 2);
  require_within("noise_density", config.noise_density, 0.01, kMostNoiseDensity);
  const Lengths lengths{config.length, config.target_length};
  return {.text = TextStore::Layout::documents,
          .trained = lengths,
          .evaluated = lengths,
          .least_vocab_size = span_counts(config.length, config.noise_density).spans + 3,
          .length_knobs = "length, target_length",
          // Without a recipe, identities are those of texts before there was a choice.
          .recipe = config.noise_density == kNoiseDensity ? "" : recipe_of(config, kKnobs)};
}

std::unique_ptr<Task> make_span_corruption(const TrainConfig& config, std::int64_t vocab_size,
                                           std::unique_ptr<TextStore> text) {
  return std::make_unique<SpanCorruption>(config, vocab_size, std::move(text));
}

}  // namespace scaling
