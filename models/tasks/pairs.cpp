// A chunk's two sides as source and target.
#include "models/tasks/pairs.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/tasks/text_task.h"

namespace scaling {
namespace {

constexpr int kEnd = 1;
constexpr const char* kKnobs[] = {"join_pairs", "paragraph_tokens"};

/// Without paragraphs as it was before there were any, so that such curves are still the same.
std::string recipe(const TrainConfig& config) {
  return recipe_of(config, std::span(kKnobs).first(config.paragraph_tokens > 0 ? 2 : 1));
}

/// What some chunks hold.
struct Held {
  std::uint64_t cut_sources = 0, cut_targets = 0;  // examples with no room for the side's end
  std::uint64_t source_tokens = 0, target_tokens = 0;
};

class Pairs : public TextTask {
 public:
  Pairs(const TrainConfig& config, std::int64_t vocab_size, std::unique_ptr<TextStore> text)
      : TextTask(config, needs_of_pairs(config), vocab_size, std::move(text)) {}

  std::string description() const override {
    const Held trained = held(store().training_chunks(), &TextStore::training_chunk);
    const Held held_out = held(store().validation_chunks(), &TextStore::validation_chunk);
    const CutTokens lost = store().cut_tokens();
    const auto share = [](std::uint64_t cut, std::uint64_t kept) {
      return " (" + scaled(double(cut)) + " of " + scaled(double(cut + kept)) + " tokens)";
    };
    return TextTask::description() + "; cut: " + std::to_string(trained.cut_sources) + " and " +
           std::to_string(held_out.cut_sources) + " sources at length " +
           std::to_string(config().length) + of_paragraphs() +
           share(lost.sources, trained.source_tokens + held_out.source_tokens) + ", " +
           std::to_string(trained.cut_targets) + " and " + std::to_string(held_out.cut_targets) +
           " targets at target_length " + std::to_string(config().target_length) +
           share(lost.targets, trained.target_tokens + held_out.target_tokens);
  }

 private:
  double make_example(std::span<const int> ids, Rng&, const Example& to) const override {
    const auto source = ids.first(to.source.size()), target = ids.subspan(to.source.size());
    SCALING_CHECK(target.size() == to.target.size());
    std::copy(source.begin(), source.end(), to.source.begin());
    std::copy(target.begin(), target.end(), to.target.begin());
    shift_right(to.target, to.input);
    double bytes = 0;
    for (std::size_t i = 0; i < target.size(); ++i) {
      to.weights[i] = target[i] == 0 ? 0.0f : 1.0f;
      bytes += store().tokenizer().bytes_of(target[i]);
    }
    return bytes;
  }

  std::string of_paragraphs() const {
    const std::int64_t room = config().paragraph_tokens;
    if (room == 0) return "";
    return " of " + plural(std::uint64_t(config().length / room), "paragraph") + " of " +
           std::to_string(room);
  }

  Held held(std::uint64_t chunks, TextStore::Chunk (TextStore::*chunk)(std::uint64_t) const) const {
    const auto tokens = [](auto from, auto to) {
      return std::uint64_t(std::count_if(from, to, [](int id) { return id != 0 && id != kEnd; }));
    };
    Held all;
    std::vector<int> ids(std::size_t(store().chunk_length()));
    const auto targets = ids.begin() + config().length;
    for (std::uint64_t i = 0; i < chunks; ++i) {
      store().read((store().*chunk)(i), ids.data());
      all.cut_sources += is_cut({ids.begin(), targets}, store().chunk_shape());
      all.cut_targets += is_cut({targets, ids.end()}, {});
      all.source_tokens += tokens(ids.begin(), targets);
      all.target_tokens += tokens(targets, ids.end());
    }
    return all;
  }
};

void require_paragraphs(const TrainConfig& config) {
  const std::int64_t room = config.paragraph_tokens;
  require_at_least("paragraph_tokens", room, 0);
  if (room == 0) return;
  if (config.length % room != 0) {
    throw UserError("length " + std::to_string(config.length) +
                    " is no multiple of paragraph_tokens " + std::to_string(room) +
                    ", so the last paragraph would have less room than others; give a number of "
                    "paragraphs times paragraph_tokens as length");
  }
  if (config.join_pairs > 0) {
    throw UserError("paragraph_tokens " + std::to_string(room) + " and join_pairs " +
                    std::to_string(config.join_pairs) +
                    " do not go together: a joined source would have paragraphs of several texts; "
                    "set one of them 0");
  }
}

}  // namespace

Needs needs_of_pairs(const TrainConfig& config) {
  if (config.target_side.empty()) {
    throw UserError(
        "target_side is empty; name the ending of the targets' file, such as de for train.de "
        "beside the corpus train.en, or of JSON lines the key of the target");
  }
  require_at_least("target_length", config.target_length, 2);
  require_at_least("join_pairs", config.join_pairs, 0);
  require_paragraphs(config);
  const Lengths lengths{config.length, config.target_length};
  return {.text = TextStore::Layout::pairs,
          .trained = lengths,
          .evaluated = lengths,
          .length_knobs = "length, target_length",
          .recipe = recipe(config)};
}

std::unique_ptr<Task> make_pairs(const TrainConfig& config, std::int64_t vocab_size,
                                 std::unique_ptr<TextStore> text) {
  return std::make_unique<Pairs>(config, vocab_size, std::move(text));
}

}  // namespace scaling
