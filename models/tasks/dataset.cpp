// Corpus, tokenizer, cache and task put together.
#include "models/tasks/dataset.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "kernels/check.h"
#include "models/tasks/span_corruption.h"
#include "models/tasks/toy_tasks.h"
#include "models/text/generator.h"
#include "models/text/hash.h"
#include "models/text/permutation.h"
#include "models/text/token_file.h"
#include "models/text/vocabulary.h"

namespace scaling {
namespace {

constexpr std::uint64_t kHoldOut = 50;  // one chunk of so many is for validation
/// The end of a document counts as one byte of causal text; of span_corruption, whose ends and
/// sentinels belong to the task, only the spans' own text counts.
constexpr int kEndBytes = 1;

enum Purpose : std::uint64_t { kOrder = 1, kSpans = 2 };
constexpr std::uint64_t kValidationKey = 0x76616c6964;  // the same whatever the seed

std::uint64_t key_of(std::uint64_t seed, Purpose purpose, std::uint64_t epoch) {
  const auto bits = random_bits(seed, purpose, epoch);
  return (std::uint64_t(bits[1]) << 32) | bits[0];
}

/// What TrainConfig::validate cannot know.
void check_sentinels(const TrainConfig& config, std::int64_t vocab_size) {
  if (config.task != "span_corruption") return;
  const std::int64_t sentinels = span_counts(config.length).spans;
  if (vocab_size >= sentinels + 3) return;
  throw UserError("vocab_size " + std::to_string(vocab_size) + " has no room for the " +
                  std::to_string(sentinels) + " sentinels of length " +
                  std::to_string(config.length) + "; raise vocab_size or lower length");
}

std::string decimal(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// "12.3M" of 12345678.
std::string scaled(double value) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return decimal(value) + unit;
}

std::string plural(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

struct Dataset::Impl {
  TrainConfig config;
  std::int64_t vocab_size = 0;
  bool spans = false;
  std::string cache;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TokenFile> text, validation;  // validation null: chunks of text held out
  std::uint64_t training_chunks = 0, held_chunks = 0, evaluated = 0;
  std::string tokenizer_model, fingerprint, description;
  std::optional<double> floor;
  std::optional<ToyTask> toy, toy_evaluation;

  Impl(const TrainConfig& settings, std::int64_t vocabulary, const std::string& folder)
      : config(settings),
        vocab_size(vocabulary),
        spans(settings.task == "span_corruption"),
        cache(folder) {}

  std::uint64_t chunks_of(const TokenFile& file) const {
    return file.header().ids / std::uint64_t(config.length);
  }

  /// Training and validation chunks of a text, which has `chunks` in all: the 50th, 100th, ... are
  /// held out.
  static std::uint64_t training_chunk(std::uint64_t index) {
    return index + index / (kHoldOut - 1);
  }
  static std::uint64_t held_chunk(std::uint64_t index) { return index * kHoldOut + kHoldOut - 1; }

  std::unique_ptr<TokenFile> tokenised(const Corpus& corpus, std::uint64_t content) {
    const std::int64_t stride = spans ? config.length : 0;
    const std::uint64_t key = Hash()
                                  .text("tokens 1")
                                  .number(content)
                                  .text(tokenizer->identity())
                                  .number(std::uint64_t(stride))
                                  .value();
    const std::string path = cache + "/tokens-" + hex_of(key) + ".bin";
    if (std::filesystem::exists(path)) {
      try {
        return std::make_unique<TokenFile>(path, key, vocab_size);
      } catch (const UserError&) {
        description += "damaged cache made anew; ";
      }
    }
    make_folder(cache);
    TokenWriter writer(path, key, vocab_size, stride);
    std::vector<int> ids;
    const CorpusCounts counts = corpus.read([&](std::string_view piece, bool last) {
      ids.clear();
      tokenizer->encode(piece, ids);
      writer.add(ids);
      if (last) writer.end_document();
    });
    writer.finish(counts);
    return std::make_unique<TokenFile>(path, key, vocab_size);
  }

  void describe(const Corpus& corpus) {
    const TokenHeader& header = text->header();
    description += corpus.generated() ? "generated text" : plural(corpus.files(), "file");
    if (corpus.ignored_files() > 0) {
      description += " (" + plural(corpus.ignored_files(), "file") + " of other kinds left out)";
    }
    description += ", " + plural(header.documents, "document") + ", " +
                   scaled(double(header.text_bytes)) + " bytes, " + scaled(double(header.tokens)) +
                   " tokens";
    if (header.skipped_lines > 0) {
      description += ", " + plural(header.skipped_lines, "unusable line") + " skipped";
    }
    const double examples = double(config.steps) * double(config.batch);
    description += "; " + plural(training_chunks, "chunk") + " of " +
                   std::to_string(config.length) + " to train on, " + std::to_string(held_chunks) +
                   " to evaluate on (" + std::to_string(evaluated) + " used); " +
                   plural(std::uint64_t(config.steps), "step") + " make " +
                   decimal(examples / double(training_chunks)) + " epochs";
  }

  /// Everything a toy task needs.
  void begin_toy() {
    toy = training_task(config);
    toy_evaluation = evaluation_task(config);
    if (vocab_size < toy->least_vocab_size()) {
      throw UserError("vocab_size " + std::to_string(vocab_size) + " has no room for the task " +
                      config.task + "; set vocab_size " + std::to_string(toy->least_vocab_size()) +
                      " or more");
    }
    evaluated = std::uint64_t(config.evaluate_batches) * std::uint64_t(config.batch);
    Hash all;
    all.text("toy 2").text(config.task).number(config.data_seed);
    all.number(std::uint64_t(config.batch));
    for (const ToyTask& task : {*toy, *toy_evaluation}) {
      all.number(std::uint64_t(task.digits_min)).number(std::uint64_t(task.digits_max));
    }
    fingerprint = hex_of(all.value());
    const auto digits = [](const ToyTask& task) {
      return std::to_string(task.digits_min) + " to " + std::to_string(task.digits_max) + " digits";
    };
    description = config.task + " of " + digits(*toy) + ", evaluated on " +
                  plural(evaluated, "example") + " of " + digits(*toy_evaluation) + "; " +
                  plural(std::uint64_t(config.steps), "step") + " draw " +
                  scaled(double(config.steps) * double(config.batch)) + " examples";
  }

  void shape(Batch& out, std::int64_t examples) const {
    out.examples = examples;
    out.source_length = spans ? config.length : 0;
    out.target_length = spans ? config.target_length : config.length;
    out.source.resize(std::size_t(examples * out.source_length));
    out.target.resize(std::size_t(examples * out.target_length));
    out.weights.resize(out.target.size());
    out.bytes = 0;
  }

  /// Fills row `row` of the batch with a chunk. counted false: with weights 0.
  void fill(const TokenFile& file, std::uint64_t chunk, std::uint64_t span_key, bool counted,
            std::int64_t row, Batch& out) const {
    int* target = out.target.data() + row * out.target_length;
    float* weights = out.weights.data() + row * out.target_length;
    const float weight = counted ? 1.0f : 0.0f;
    const std::uint64_t first = chunk * std::uint64_t(config.length);
    double bytes = 0;
    if (!spans) {
      file.read(first, config.length, target);
      std::fill_n(weights, config.length, weight);
      for (std::int64_t i = 0; i < config.length; ++i) {
        bytes += target[i] == 1 ? kEndBytes : tokenizer->bytes_of(target[i]);
      }
    } else {
      static thread_local std::vector<int> ids;
      static thread_local CorruptedText corrupted;
      ids.resize(std::size_t(config.length));
      file.read(first, config.length, ids.data());
      const auto length = std::find(ids.begin(), ids.end(), 0) - ids.begin();
      Rng rng(span_key, chunk);
      corrupt_spans(ids.data(), length, vocab_size, rng, corrupted);

      int* source = out.source.data() + row * out.source_length;
      const auto& input = corrupted.input;
      const auto read = std::min<std::int64_t>(std::int64_t(input.size()), out.source_length);
      std::copy_n(input.begin(), read, source);
      std::fill(source + read, source + out.source_length, 0);

      const auto& wanted = corrupted.target;
      const auto told = std::min<std::int64_t>(std::int64_t(wanted.size()), out.target_length);
      std::copy_n(wanted.begin(), told, target);
      std::fill(target + told, target + out.target_length, 0);
      std::fill_n(weights, told, weight);
      std::fill(weights + told, weights + out.target_length, 0.0f);
      for (std::int64_t i = 0; i < told; ++i) {
        if (corrupted.taken[std::size_t(i)]) bytes += tokenizer->bytes_of(target[i]);
      }
    }
    if (counted) out.bytes += bytes;
  }
};

Dataset::Dataset(const TrainConfig& config, std::int64_t vocab_size,
                 const std::string& cache_folder, const ReadWatch& watch)
    : impl_(std::make_unique<Impl>(config, vocab_size, cache_folder)) {
  config.validate();
  check_sentinels(config, vocab_size);
  Impl& d = *impl_;
  if (config.is_toy()) {
    d.begin_toy();
    return;
  }
  const Corpus corpus(config.corpus, config.text_key, watch);
  const std::uint64_t content = corpus.hash(cache_folder);
  if (config.tokenizer == "bytes") {
    d.tokenizer = make_byte_tokenizer(vocab_size);
  } else {
    d.tokenizer_model = sentencepiece_model(corpus, content, vocab_size, cache_folder);
    d.tokenizer = load_sentencepiece(d.tokenizer_model, vocab_size);
  }
  d.text = d.tokenised(corpus, content);
  std::uint64_t validation_content = 0;
  const std::uint64_t chunks = d.chunks_of(*d.text);
  if (config.validation.empty()) {
    d.held_chunks = chunks / kHoldOut;
    d.training_chunks = chunks - d.held_chunks;
    if (d.held_chunks == 0) {
      throw UserError("corpus '" + config.corpus + "' is too small: it has " +
                      std::to_string(chunks) + " chunks of " + std::to_string(config.length) +
                      " tokens, and every 50th is held out for validation; give more text, a "
                      "smaller length or a validation text");
    }
  } else {
    const Corpus other(config.validation, config.text_key, watch);
    validation_content = other.hash(cache_folder);
    d.validation = d.tokenised(other, validation_content);
    d.training_chunks = chunks;
    d.held_chunks = d.chunks_of(*d.validation);
    if (d.training_chunks == 0 || d.held_chunks == 0) {
      const std::string& small = d.training_chunks == 0 ? config.corpus : config.validation;
      throw UserError("text '" + small + "' is too small: it has not one chunk of " +
                      std::to_string(config.length) +
                      " tokens; give more text or a smaller length");
    }
  }
  d.evaluated =
      std::min(d.held_chunks, std::uint64_t(config.evaluate_batches) * std::uint64_t(config.batch));
  d.describe(corpus);

  Hash all;
  all.number(content).number(validation_content).text(d.tokenizer->identity());
  all.number(std::uint64_t(vocab_size)).text(config.task).number(std::uint64_t(config.length));
  all.number(d.spans ? std::uint64_t(config.target_length) : 0);
  all.number(config.data_seed).number(std::uint64_t(config.batch));
  d.fingerprint = hex_of(all.value());

  if (corpus.generated() && config.validation.empty() && !d.spans) {
    Batch batch;
    double bytes = 0;
    for (std::int64_t index = 0; index < validation_batches(); ++index) {
      validation_batch(index, batch);
      bytes += batch.bytes;
    }
    d.floor = Generator().floor() * bytes / double(d.evaluated * std::uint64_t(config.length));
  }
}

Dataset::~Dataset() = default;

void Dataset::train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces,
                          Batch& out) const {
  const Impl& d = *impl_;
  SCALING_CHECK(step >= 0 && piece >= 0 && piece < pieces);
  const std::int64_t first = d.config.batch * piece / pieces;
  const std::int64_t last = d.config.batch * (piece + 1) / pieces;
  if (d.toy) {
    d.toy->make_batch(step, first, last, out);
    return;
  }
  d.shape(out, last - first);
  for (std::int64_t i = first; i < last; ++i) {
    const auto example = std::uint64_t(step * d.config.batch + i);
    const std::uint64_t epoch = example / d.training_chunks;
    const Permutation order(d.training_chunks, key_of(d.config.data_seed, kOrder, epoch));
    const std::uint64_t index = order(example % d.training_chunks);
    const std::uint64_t chunk = d.validation ? index : Impl::training_chunk(index);
    d.fill(*d.text, chunk, key_of(d.config.data_seed, kSpans, epoch), true, i - first, out);
  }
}

void Dataset::validation_batch(std::int64_t index, Batch& out) const {
  const Impl& d = *impl_;
  SCALING_CHECK(index >= 0 && index < validation_batches());
  const std::int64_t examples = d.config.batch / d.config.accumulate;
  if (d.toy_evaluation) {
    const std::int64_t first = index % d.config.accumulate * examples;
    d.toy_evaluation->make_batch(index / d.config.accumulate, first, first + examples, out);
    return;
  }
  d.shape(out, examples);
  for (std::int64_t row = 0; row < examples; ++row) {
    const auto place = std::uint64_t(index * examples + row);
    const bool counted = place < d.evaluated;
    const std::uint64_t held = std::min(place, d.evaluated - 1) * d.held_chunks / d.evaluated;
    const std::uint64_t chunk = d.validation ? held : Impl::held_chunk(held);
    d.fill(d.validation ? *d.validation : *d.text, chunk, kValidationKey, counted, row, out);
  }
}

void Dataset::evaluate_on_digits(std::int64_t least, std::int64_t most) {
  SCALING_CHECK(impl_->toy_evaluation);
  ToyTask& task = *impl_->toy_evaluation;
  task.digits_min = least;
  task.digits_max = most;
  task.is_strict = true;
}

std::int64_t Dataset::validation_batches() const {
  const Impl& d = *impl_;
  const std::int64_t examples = d.config.batch / d.config.accumulate;
  return (std::int64_t(d.evaluated) + examples - 1) / examples;
}

const std::string& Dataset::tokenizer_model() const { return impl_->tokenizer_model; }

const Tokenizer& Dataset::tokenizer() const {
  SCALING_CHECK(impl_->tokenizer != nullptr);
  return *impl_->tokenizer;
}
std::string Dataset::fingerprint() const { return impl_->fingerprint; }
std::optional<double> Dataset::floor() const { return impl_->floor; }
std::string Dataset::description() const { return impl_->description; }

}  // namespace scaling
