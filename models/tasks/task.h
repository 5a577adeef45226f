// What a model learns from: batches of examples and the sets on which it is evaluated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/batch.h"
#include "models/text/text_store.h"
#include "models/train_config.h"

namespace scaling {

/// Positions of an example; source 0: no encoder.
struct Lengths {
  std::int64_t source = 0, input = 0;
};

/// What a task asks of text and model; known from the knobs alone, before any text is read.
struct Needs {
  std::optional<TextStore::Layout> text = {};  ///< none: examples are drawn
  bool causal = true;                          ///< Batch::causal
  Lengths trained, evaluated;                  ///< of the longest example
  std::int64_t least_vocab_size = 1;
  std::string length_knobs;  ///< those that lengths come from, for messages
  std::string recipe = {};   ///< of a text's examples, if any knob changes it; part of identities

  bool has_source() const { return trained.source > 0; }
  Lengths longest() const;
  /// Rows that the tables of positions need, wherever training starts.
  std::int64_t positions(const TrainConfig& config) const;
};

/// "knob=value" of each, a space between: a recipe.
std::string recipe_of(const TrainConfig& config, std::span<const char* const> knobs);

/// One set of fixed examples. The first of a task decides which checkpoint is best.
struct ValidationSet {
  /// What metrics of the set are called: prefix + metric + suffix; both empty for the first.
  std::string prefix = {}, suffix = {};
  bool only_at_end = false;  ///< of a run; else at every evaluation
};

/// What an identity is compared for.
enum class Purpose {
  resuming,   ///< a checkpoint: every batch, in its order
  comparison  ///< results that may stand beside each other, whatever their seeds and batches
};

/// A number that says how good answers are.
struct Score {
  std::string name;  ///< of a metric
  double value = 0;  ///< not finite: there is none
};

/// Questions that have a few answers, the same for all, so that a model can be asked which of them
/// it holds likeliest.
class Answers {
 public:
  virtual ~Answers() = default;
  /// The examples of the first validation set, each once.
  virtual std::size_t questions() const = 0;
  virtual std::size_t choices() const = 0;
  /// Every question once, in groups of at most `most` whose sources have one length, so that a
  /// batch of a group pads none of them further than alone.
  virtual std::vector<std::vector<std::size_t>> groups(std::size_t most) const = 0;
  /// An example for each of these questions: it, and this answer for its target. Sources do not
  /// depend on the answer.
  virtual void ask(std::span<const std::size_t> questions, std::size_t choice,
                   Batch& out) const = 0;
  /// Whether the answer is the truth.
  virtual bool is_right(std::size_t question, std::size_t choice) const = 0;
  /// chosen: of each question the answer that was held likeliest.
  virtual std::vector<Score> scores(std::span<const std::size_t> chosen) const = 0;
};

/// Batches are pure functions of their index, so that a resumed run sees what an uninterrupted one
/// would have seen.
class Task {
 public:
  virtual ~Task() = default;
  /// Examples [piece * batch / pieces, ...) of the batch of optimiser step `step` (0, 1, ...).
  virtual void train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces,
                           Batch& out) const = 0;
  virtual std::vector<ValidationSet> validation_sets() const { return {{}}; }
  /// Every set has so many batches of batch / accumulate examples, whatever the seeds.
  virtual std::int64_t validation_batches() const = 0;
  virtual void validation_batch(std::size_t set, std::int64_t index, Batch& out) const = 0;
  /// Hash of text, tokenizer, settings and, for resuming, order.
  virtual std::string identity(Purpose purpose) const = 0;
  /// One line for people.
  virtual std::string description() const = 0;
  /// Nats per target token below which no model can get, if that is known.
  virtual std::optional<double> floor() const { return {}; }
  /// Null if any text may be an answer.
  virtual const Answers* answers() const { return nullptr; }
  /// Null if examples are drawn.
  virtual const TextStore* text() const { return nullptr; }
};

}  // namespace scaling
