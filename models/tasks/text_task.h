// Tasks whose examples are made from chunks of a text: every epoch sees every training chunk once,
// in an order of its own. What an example looks like is the derived task's.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kernels/random.h"
#include "models/tasks/task.h"

namespace scaling {

class TextTask : public Task {
 public:
  void train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces,
                   Batch& out) const override;
  /// evaluate_batches * batch examples spread evenly over the validation text, or all of it if that
  /// is less; the last batch is filled up with weight 0.
  void validation_batch(std::size_t set, std::int64_t index, Batch& out) const override;
  std::int64_t validation_batches() const override;
  std::string identity(Purpose purpose) const override;
  std::string description() const override;
  const TextStore* text() const override { return text_.get(); }

 protected:
  /// One example's part of a batch, all 0 at first.
  struct Example {
    std::span<int> source, input, target;
    std::span<float> weights;
  };

  TextTask(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
           std::unique_ptr<TextStore> text);
  /// ids: a chunk of TextStore::chunk_length() tokens, padded with 0. rng: of this chunk in this
  /// epoch; for validation always the same. Returns the bytes of text that the weighted targets
  /// stand for.
  virtual double make_example(std::span<const int> ids, Rng& rng, const Example& to) const = 0;

  const TrainConfig& config() const { return config_; }
  std::int64_t vocab_size() const { return vocab_size_; }
  const TextStore& store() const { return *text_; }
  /// Validation examples in all.
  std::uint64_t evaluated() const { return evaluated_; }

 private:
  void shape(Batch& out, std::int64_t examples) const;
  /// Fills row `row` of the batch; counted false: with weights 0.
  void fill(const TextStore::Chunk& chunk, std::uint64_t key, bool counted, std::int64_t row,
            Batch& out) const;

  TrainConfig config_;
  Needs needs_;
  std::int64_t vocab_size_;
  std::unique_ptr<TextStore> text_;
  std::uint64_t evaluated_;
};

/// Task::identity of a task that learns from this text.
std::string text_identity(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
                          const TextStore& text, Purpose purpose);

/// The same for Purpose::comparison of a task that has not been made: nothing is tokenised, a text
/// is read at most, and not even that if `cache_folder` knows its content. Throws UserError
/// if the text is missing or cannot be read.
std::string text_identity(const TrainConfig& config, const Needs& needs, std::int64_t vocab_size,
                          const std::string& cache_folder, const ReadWatch& watch);

}  // namespace scaling
