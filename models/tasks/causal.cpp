// A window is its own target.
#include "models/tasks/causal.h"

#include <algorithm>
#include <utility>

#include "models/tasks/text_task.h"
#include "models/text/generator.h"

namespace scaling {
namespace {

/// The end of a document counts as one byte of text.
constexpr int kEndBytes = 1;

class Causal : public TextTask {
 public:
  Causal(const TrainConfig& config, std::int64_t vocab_size, std::unique_ptr<TextStore> text)
      : TextTask(config, needs_of_causal(config), vocab_size, std::move(text)) {}

  /// The generator's entropy over the validation examples' bytes, where the text is generated.
  std::optional<double> floor() const override {
    if (!store().is_generated() || !config().validation.empty()) return {};
    Batch batch;
    double bytes = 0;
    for (std::int64_t index = 0; index < validation_batches(); ++index) {
      validation_batch(0, index, batch);
      bytes += batch.bytes;
    }
    return Generator().floor() * bytes / double(evaluated() * std::uint64_t(config().length));
  }

 private:
  double make_example(std::span<const int> ids, Rng&, const Example& to) const override {
    std::copy(ids.begin(), ids.end(), to.target.begin());
    shift_right(to.target, to.input);
    std::fill(to.weights.begin(), to.weights.end(), 1.0f);
    double bytes = 0;
    for (const int id : ids) bytes += id == 1 ? kEndBytes : store().tokenizer().bytes_of(id);
    return bytes;
  }
};

}  // namespace

Needs needs_of_causal(const TrainConfig& config) {
  const Lengths lengths{0, config.length};
  return {.text = TextStore::Layout::windows,
          .trained = lengths,
          .evaluated = lengths,
          .length_knobs = "length"};
}

std::unique_ptr<Task> make_causal(const TrainConfig& config, std::int64_t vocab_size,
                                  std::unique_ptr<TextStore> text) {
  return std::make_unique<Causal>(config, vocab_size, std::move(text));
}

}  // namespace scaling
