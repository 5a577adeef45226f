// A window with some tokens hidden, and those tokens.
#include "models/tasks/masked.h"

#include <algorithm>
#include <utility>

#include "models/tasks/text_task.h"

namespace scaling {
namespace {

constexpr int kFirstOrdinaryId = 3;

class Masked : public TextTask {
 public:
  Masked(const TrainConfig& config, std::int64_t vocab_size, std::unique_ptr<TextStore> text)
      : TextTask(config, needs_of_masked(config), vocab_size, std::move(text)) {}

 private:
  int read_in_place_of(int id, Rng& rng) const {
    const std::uint32_t tenth = rng.below(10);
    if (tenth < 8) return kMaskId;
    if (tenth == 9) return id;
    return kFirstOrdinaryId + int(rng.below(std::uint32_t(vocab_size() - kFirstOrdinaryId)));
  }

  double make_example(std::span<const int> ids, Rng& rng, const Example& to) const override {
    std::copy(ids.begin(), ids.end(), to.target.begin());
    std::copy(ids.begin(), ids.end(), to.input.begin());
    // Every choice of so many positions is equally likely: each is taken with probability
    // wanted / left.
    const std::size_t n = ids.size();
    std::size_t wanted = std::max<std::size_t>(1, (15 * n + 50) / 100);
    double bytes = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (rng.below(std::uint32_t(n - i)) >= wanted) continue;
      --wanted;
      to.input[i] = read_in_place_of(ids[i], rng);
      to.weights[i] = 1;
      bytes += store().tokenizer().bytes_of(ids[i]);
    }
    return bytes;
  }
};

}  // namespace

Needs needs_of_masked(const TrainConfig& config) {
  const Lengths lengths{0, config.length};
  return {.text = TextStore::Layout::windows,
          .causal = false,
          .trained = lengths,
          .evaluated = lengths,
          .least_vocab_size = kFirstOrdinaryId + 1,
          .length_knobs = "length"};
}

std::unique_ptr<Task> make_masked(const TrainConfig& config, std::int64_t vocab_size,
                                  std::unique_ptr<TextStore> text) {
  return std::make_unique<Masked>(config, vocab_size, std::move(text));
}

}  // namespace scaling
