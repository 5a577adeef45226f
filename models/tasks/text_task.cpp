// Which chunk is which example, and the batches around them.
#include "models/tasks/text_task.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/knobs.h"
#include "models/tasks/choices.h"
#include "models/text/hash.h"
#include "models/text/permutation.h"

namespace scaling {
namespace {

constexpr std::uint64_t kValidationKey = 0x76616c6964;  // the same whatever the seed

/// Target positions, where sources and targets have lengths of their own.
std::uint64_t target_length(const Lengths& lengths) {
  return lengths.source > 0 ? std::uint64_t(lengths.input) : 0;
}

std::string comparable(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
                       std::uint64_t content, std::uint64_t validation_content) {
  Hash all;
  all.number(content).number(validation_content);
  all.text(print_value(config.tokenizer)).number(std::uint64_t(vocab_size));
  all.text(config.task).number(std::uint64_t(config.length));
  all.number(target_length(needs.evaluated));
  if (!needs.recipe.empty()) all.text(needs.recipe);
  return hex_of(all.value());
}

}  // namespace

TextTask::TextTask(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
                   std::unique_ptr<TextStore> text)
    : config_(config),
      needs_(needs),
      vocab_size_(vocab_size),
      text_(std::move(text)),
      evaluated_(
          std::min(text_->validation_chunks(),
                   std::min(std::uint64_t(config.evaluate_batches), text_->validation_chunks()) *
                       std::uint64_t(config.batch))) {}

void TextTask::shape(Batch& out, std::int64_t examples) const {
  const auto [source, input] = needs_.trained;
  out.examples = examples;
  out.source_length = source;
  out.input_length = input;
  out.source.assign(std::size_t(examples * source), 0);
  out.input.assign(std::size_t(examples * input), 0);
  out.target.assign(out.input.size(), 0);
  out.weights.assign(out.input.size(), 0.0f);
  out.causal = needs_.causal;
  out.bytes = 0;
}

void TextTask::fill(const TextStore::Chunk& chunk, std::uint64_t key, bool counted,
                    std::int64_t row, Batch& out) const {
  std::vector<int> ids(std::size_t(text_->chunk_length()));
  text_->read(chunk, ids.data());
  const auto part = [row](auto& all, std::int64_t length) {
    return std::span(all).subspan(std::size_t(row * length), std::size_t(length));
  };
  const Example example{part(out.source, out.source_length), part(out.input, out.input_length),
                        part(out.target, out.input_length), part(out.weights, out.input_length)};
  Rng rng(key, chunk.place);
  const double bytes = make_example(ids, rng, example);
  if (counted) {
    out.bytes += bytes;
  } else {
    std::fill(example.weights.begin(), example.weights.end(), 0.0f);
  }
}

void TextTask::train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces,
                           Batch& out) const {
  SCALING_CHECK(step >= 0 && piece >= 0 && piece < pieces);
  const std::int64_t first = config_.batch * piece / pieces;
  const std::int64_t last = config_.batch * (piece + 1) / pieces;
  const std::uint64_t chunks = text_->training_chunks();
  shape(out, last - first);
  for (std::int64_t i = first; i < last; ++i) {
    const auto example = std::uint64_t(step * config_.batch + i);
    const std::uint64_t epoch = example / chunks;
    const Permutation order(chunks, key_of_epoch(config_.data_seed, EpochDraws::order, epoch));
    const TextStore::Chunk chunk = text_->training_chunk(order(example % chunks));
    fill(chunk, key_of_epoch(config_.data_seed, EpochDraws::examples, epoch), true, i - first, out);
  }
}

void TextTask::validation_batch(std::size_t set, std::int64_t index, Batch& out) const {
  SCALING_CHECK(set == 0 && index >= 0 && index < validation_batches());
  const std::int64_t examples = config_.batch / config_.accumulate;
  shape(out, examples);
  for (std::int64_t row = 0; row < examples; ++row) {
    const auto at = std::uint64_t(index * examples + row);
    const std::uint64_t chunk =
        std::min(at, evaluated_ - 1) * text_->validation_chunks() / evaluated_;
    fill(text_->validation_chunk(chunk), kValidationKey, at < evaluated_, row, out);
  }
}

std::int64_t TextTask::validation_batches() const {
  const std::int64_t examples = config_.batch / config_.accumulate;
  return (std::int64_t(evaluated_) + examples - 1) / examples;
}

std::string TextTask::identity(Purpose purpose) const {
  return text_identity(config_, needs_, vocab_size_, *text_, purpose);
}

std::string TextTask::description() const {
  const double examples = double(config_.steps) * double(config_.batch);
  char epochs[32];
  std::snprintf(epochs, sizeof epochs, "%.3g", examples / double(text_->training_chunks()));
  return text_->description() + "; " + plural(text_->training_chunks(), "chunk") + " of " +
         text_->chunk_size() + " to train on, " + std::to_string(text_->validation_chunks()) +
         " to evaluate on (" + std::to_string(evaluated_) + " used); " +
         plural(std::uint64_t(config_.steps), "step") + " make " + epochs + " epochs";
}

std::string text_identity(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
                          const TextStore& text, Purpose purpose) {
  if (purpose == Purpose::comparison) {
    return comparable(config, needs, vocab_size, text.content(), text.validation_content());
  }
  Hash all;
  all.number(text.content()).number(text.validation_content());
  all.text(text.tokenizer().identity()).number(std::uint64_t(vocab_size));
  all.text(config.task).number(std::uint64_t(config.length));
  all.number(target_length(needs.trained));
  if (!needs.recipe.empty()) all.text(needs.recipe);
  all.number(config.data_seed).number(std::uint64_t(config.batch));
  return hex_of(all.value());
}

std::string text_identity(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
                          const std::string& cache_folder, const ReadWatch& watch) {
  const auto content = [&](const std::string& name) {
    return name.empty() ? 0 : corpus_of(config, name, *needs.text, watch).hash(cache_folder);
  };
  return comparable(config, needs, vocab_size, content(config.corpus), content(config.validation));
}

}  // namespace scaling
