// Batches of text or numbers as a pure function of their index, so that a resumed run sees what an
// uninterrupted one would have seen.
//
// causal: documents follow one another, each closed by 1, and are cut into windows of `length`
// tokens (the last, shorter one is left out); a window is a target, every weight 1. span_corruption
// [9.1]: each document is cut into chunks of at most `length` tokens (a rest of one token is left
// out), each corrupted anew in every epoch; what exceeds length or target_length is cut off. Every
// epoch sees every training chunk once, in an order of its own. Toy tasks (toy_tasks.h) draw every
// example anew and want neither corpus nor tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "models/batch.h"
#include "models/text/corpus.h"
#include "models/text/tokenizer.h"
#include "models/training/train_config.h"

namespace scaling {

class Dataset {
 public:
  /// Reads, tokenises and caches the corpus unless the cache has it; later only opens the cache
  /// file. Throws UserError for a missing, unreadable or too small corpus, a full disk, a
  /// vocabulary without room for the task; a damaged cache is made anew. watch: of every pass over
  /// the text; only the training of a vocabulary goes unwatched.
  Dataset(const TrainConfig& config, std::int64_t vocab_size, const std::string& cache_folder,
          const ReadWatch& watch = {});
  ~Dataset();

  /// Examples [piece * batch / pieces, ...) of the batch of optimiser step `step` (0, 1, ...).
  void train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces, Batch& out) const;
  /// One of validation_batches() fixed batches of batch / accumulate examples. Together they are
  /// evaluate_batches * batch examples spread evenly over the validation text (all of it if that is
  /// less; of a toy task, as many batches of its own), whatever accumulate and the seeds; the last
  /// batch is filled up with weight 0.
  void validation_batch(std::int64_t index, Batch& out) const;
  std::int64_t validation_batches() const;

  /// Of a toy task: validation examples have `least` to `most` digits from now on, of an addition
  /// both addends together.
  void evaluate_on_digits(std::int64_t least, std::int64_t most);
  /// Not to be called for a toy task.
  const Tokenizer& tokenizer() const;
  /// The SentencePiece model's file; empty for bytes and toy tasks.
  const std::string& tokenizer_model() const;
  /// Hash of text, tokenizer, task settings and order: what a checkpoint must agree with.
  std::string fingerprint() const;
  /// Nats per target token below which no model can get, if the text was generated (causal): the
  /// generator's entropy over the validation examples' bytes.
  std::optional<double> floor() const;
  /// One line for people: files, bytes, tokens, epochs that the run's steps make.
  std::string description() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scaling
