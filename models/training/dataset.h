// Batches of text as a pure function of their index, so that a resumed run sees what an uninterrupted
// one would have seen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "models/batch.h"
#include "models/training/tokenizer.h"
#include "models/training/train_config.h"

namespace scaling {

class Dataset {
 public:
  /// Reads, tokenises and caches the corpus unless the cache has it; later only maps the cache file.
  /// Throws UserError for a missing, unreadable or too small corpus, a full disk, a damaged cache.
  Dataset(const TrainConfig& config, std::int64_t vocab_size, const std::string& cache_folder);
  ~Dataset();

  /// Examples [piece * batch / pieces, ...) of the batch of optimiser step `step` (0, 1, ...).
  void train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces, Batch& out) const;
  /// One of validation_batches() fixed batches.
  void validation_batch(std::int64_t index, Batch& out) const;
  std::int64_t validation_batches() const;

  const Tokenizer& tokenizer() const;
  /// Hash of text, tokenizer and task settings: what a checkpoint must agree with.
  std::string fingerprint() const;
  /// Nats per target token below which no model can get, if the text was generated.
  std::optional<double> floor() const;
  /// One line for people: files, bytes, tokens, epochs that the run's steps make.
  std::string description() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scaling
