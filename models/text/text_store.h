// A training run's text as tokens, cut into chunks of one length: its tokenizer, its cache on disk
// and what of it is held out for validation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/text/corpus.h"
#include "models/text/pair_chunks.h"
#include "models/text/token_file.h"
#include "models/text/tokenizer.h"
#include "models/train_config.h"

namespace scaling {

class TextStore {
 public:
  /// windows: documents follow one another, each closed by 1, and are cut into windows of `length`
  /// tokens; the last, shorter one is left out. documents: each document is cut into chunks of at
  /// most `length` tokens, padded with 0; a rest of one token is left out. table: the task reads
  /// the rows itself (models/text/table.h); there are no chunks and no cache, only a tokenizer and
  /// what the texts are known by. pairs: a source of at most `length` tokens and its target of at
  /// most `target_length`, or paragraphs of paragraph_tokens each, see PairChunks.
  enum class Layout { windows, documents, table, pairs };

  /// Reads, tokenises and caches config's corpus and validation text unless the cache has them;
  /// later only opens the cache files. Throws UserError for a missing, unreadable or too small
  /// text and for a full disk; a damaged cache is made anew. watch: of every pass over the text;
  /// only the training of a vocabulary goes unwatched.
  TextStore(const TrainConfig& config, Layout layout, std::int64_t vocab_size,
            const std::string& cache_folder, const ReadWatch& watch = {});

  /// Without a validation text every 50th chunk of the corpus is held out.
  std::uint64_t training_chunks() const { return training_chunks_; }
  std::uint64_t validation_chunks() const { return validation_chunks_; }

  /// A chunk by its place in its text.
  struct Chunk {
    const TokenFile& text;
    std::uint64_t place;
  };
  Chunk training_chunk(std::uint64_t index) const;
  Chunk validation_chunk(std::uint64_t index) const;
  std::int64_t chunk_length() const { return shape_.length(); }
  const ChunkShape& chunk_shape() const { return shape_; }
  /// The same for people: "128", of pairs "128 + 64".
  std::string chunk_size() const;
  /// The chunk's chunk_length() ids. May be called by several threads.
  void read(const Chunk& chunk, int* ids) const;
  /// Of pairs: what had no room, in both texts together.
  CutTokens cut_tokens() const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// The SentencePiece model's file; empty for bytes, and if init_from carries the model.
  const std::string& tokenizer_model() const { return tokenizer_model_; }
  /// Hashes of the two texts; 0 without a validation text.
  std::uint64_t content() const { return content_; }
  std::uint64_t validation_content() const { return validation_content_; }
  bool is_generated() const { return is_generated_; }
  /// "3 files, 12 documents, 1.2M bytes, 400k tokens", for people.
  const std::string& description() const { return description_; }

 private:
  std::unique_ptr<TokenFile> tokenised(const Corpus& corpus, std::uint64_t content, Layout layout,
                                       std::int64_t vocab_size, const std::string& cache_folder);
  CorpusCounts write_documents(const Corpus& corpus, TokenWriter& writer) const;
  CorpusCounts write_pairs(const Corpus& corpus, TokenWriter& writer) const;
  std::uint64_t chunks_of(const TokenFile& text) const;
  void describe(const Corpus& corpus);

  ChunkShape shape_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<TokenFile> text_, validation_;  // validation_ null: chunks of text_ held out
  std::uint64_t training_chunks_ = 0, validation_chunks_ = 0;
  std::uint64_t content_ = 0, validation_content_ = 0;
  bool is_generated_ = false;
  std::string tokenizer_model_, description_;
};

/// Of Layout::pairs.
ChunkShape pair_shape(const TrainConfig& config);

/// A corpus by its name, read as the config says; its documents come in pairs in that layout.
Corpus corpus_of(const TrainConfig& config, const std::string& name, TextStore::Layout layout,
                 const ReadWatch& watch);

/// "12.3M" of 12345678.
std::string scaled(double value);
/// "1 file", "2 files".
std::string plural(std::uint64_t count, const std::string& noun);

}  // namespace scaling
