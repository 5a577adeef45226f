// Corpus, tokenizer and cache put together.
#include "models/text/text_store.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "kernels/check.h"
#include "models/text/hash.h"
#include "models/text/vocabulary.h"

namespace scaling {
namespace {

constexpr std::uint64_t kHoldOut = 50;  // one chunk of so many is for validation

ChunkShape shape_of(const TrainConfig& config, TextStore::Layout layout) {
  if (layout != TextStore::Layout::pairs) return {.source = config.length};
  return pair_shape(config);
}

}  // namespace

ChunkShape pair_shape(const TrainConfig& config) {
  return {.source = config.length,
          .target = config.target_length,
          .joined = config.join_pairs,
          .paragraph = config.paragraph_tokens};
}

Corpus corpus_of(const TrainConfig& config, const std::string& name, TextStore::Layout layout,
                 const ReadWatch& watch) {
  return Corpus(name, config.text_key, watch,
                layout == TextStore::Layout::pairs ? config.target_side : "");
}

std::string scaled(double value) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", value);
  return std::string(text) + unit;
}

std::string plural(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

TextStore::TextStore(const TrainConfig& config, Layout layout, std::int64_t vocab_size,
                     const std::string& cache_folder, const ReadWatch& watch)
    : shape_(shape_of(config, layout)) {
  const Corpus corpus = corpus_of(config, config.corpus, layout, watch);
  if (!config.validation.empty()) {
    const std::string both =
        corpus.shared_with(corpus_of(config, config.validation, layout, watch));
    if (!both.empty()) {
      throw UserError("'" + both + "' belongs to corpus '" + config.corpus +
                      "' and to validation '" + config.validation +
                      "', so that what is evaluated would be trained on; give a corpus without it");
    }
  }
  is_generated_ = corpus.generated();
  content_ = corpus.hash(cache_folder);
  if (config.tokenizer == TokenizerKind::bytes) {
    tokenizer_ = make_byte_tokenizer(vocab_size);
  } else if (!config.init_from.empty()) {
    tokenizer_ = make_sentencepiece(vocabulary_of_weights(config.init_from), vocab_size,
                                    "the vocabulary of '" + config.init_from + "'");
  } else {
    tokenizer_model_ = sentencepiece_model(corpus, content_, vocab_size, cache_folder);
    tokenizer_ = load_sentencepiece(tokenizer_model_, vocab_size);
  }
  if (layout == Layout::table) {
    if (!config.validation.empty()) {
      validation_content_ = Corpus(config.validation, config.text_key, watch).hash(cache_folder);
    }
    description_ = plural(corpus.files(), "file");
    return;
  }
  text_ = tokenised(corpus, content_, layout, vocab_size, cache_folder);
  const std::uint64_t chunks = chunks_of(*text_);
  if (config.validation.empty()) {
    validation_chunks_ = chunks / kHoldOut;
    training_chunks_ = chunks - validation_chunks_;
    if (validation_chunks_ == 0) {
      throw UserError("corpus '" + config.corpus + "' is too small: it has " +
                      std::to_string(chunks) + " chunks of " + chunk_size() +
                      " tokens, and every 50th is held out for validation; give more text, a "
                      "smaller length or a validation text");
    }
  } else {
    const Corpus other = corpus_of(config, config.validation, layout, watch);
    validation_content_ = other.hash(cache_folder);
    validation_ = tokenised(other, validation_content_, layout, vocab_size, cache_folder);
    training_chunks_ = chunks;
    validation_chunks_ = chunks_of(*validation_);
    if (training_chunks_ == 0 || validation_chunks_ == 0) {
      const std::string& small = training_chunks_ == 0 ? config.corpus : config.validation;
      throw UserError("text '" + small + "' is too small: it has not one chunk of " + chunk_size() +
                      " tokens; give more text or a smaller length");
    }
  }
  describe(corpus);
}

TextStore::Chunk TextStore::training_chunk(std::uint64_t index) const {
  return {*text_, validation_ ? index : index + index / (kHoldOut - 1)};
}

TextStore::Chunk TextStore::validation_chunk(std::uint64_t index) const {
  if (validation_) return {*validation_, index};
  return {*text_, index * kHoldOut + kHoldOut - 1};
}

std::string TextStore::chunk_size() const {
  const std::string source = std::to_string(shape_.source);
  return shape_.target == 0 ? source : source + " + " + std::to_string(shape_.target);
}

void TextStore::read(const Chunk& chunk, int* ids) const {
  chunk.text.read(chunk.place * std::uint64_t(chunk_length()), chunk_length(), ids);
}

std::unique_ptr<TokenFile> TextStore::tokenised(const Corpus& corpus, std::uint64_t content,
                                                Layout layout, std::int64_t vocab_size,
                                                const std::string& cache_folder) {
  const std::int64_t stride = layout == Layout::windows ? 0 : chunk_length();
  Hash identity;
  identity.text("tokens 2").number(content).text(tokenizer_->identity());
  identity.number(std::uint64_t(stride));
  if (layout == Layout::pairs) {
    identity.number(std::uint64_t(shape_.source)).number(std::uint64_t(shape_.joined));
    // Caches without paragraphs keep their names.
    if (shape_.paragraph > 0) identity.number(std::uint64_t(shape_.paragraph));
  }
  const std::uint64_t key = identity.value();
  const std::string path = cache_folder + "/tokens-" + hex_of(key) + ".bin";
  if (std::filesystem::exists(path)) {
    try {
      return std::make_unique<TokenFile>(path, key, vocab_size);
    } catch (const UserError&) {
      description_ += "damaged cache made anew; ";
    }
  }
  make_folder(cache_folder);
  TokenWriter writer(path, key, vocab_size, stride);
  writer.finish(layout == Layout::pairs ? write_pairs(corpus, writer)
                                        : write_documents(corpus, writer));
  return std::make_unique<TokenFile>(path, key, vocab_size);
}

CorpusCounts TextStore::write_documents(const Corpus& corpus, TokenWriter& writer) const {
  std::vector<int> ids;
  return corpus.read([&](std::string_view piece, bool last) {
    ids.clear();
    tokenizer_->encode(piece, ids);
    writer.add(ids);
    if (last) writer.end_document();
  });
}

/// Each side is held whole.
CorpusCounts TextStore::write_pairs(const Corpus& corpus, TokenWriter& writer) const {
  PairChunks chunks(shape_, *tokenizer_,
                    [&writer](const std::vector<int>& chunk) { writer.add(chunk); });
  std::array<std::string, 2> sides;
  std::size_t side = 0;
  const CorpusCounts counts = corpus.read([&](std::string_view piece, bool last) {
    sides[side] += piece;
    if (!last) return;
    side = 1 - side;
    if (side == 1) return;
    chunks.add(sides[0], sides[1]);
    for (std::string& text : sides) text.clear();
  });
  chunks.finish();
  writer.set_cut(chunks.cut().sources, chunks.cut().targets);
  return counts;
}

CutTokens TextStore::cut_tokens() const {
  CutTokens cut;
  for (const TokenFile* text : {text_.get(), validation_.get()}) {
    if (text == nullptr) continue;
    cut.sources += text->header().cut_source_tokens;
    cut.targets += text->header().cut_target_tokens;
  }
  return cut;
}

std::uint64_t TextStore::chunks_of(const TokenFile& text) const {
  return text.header().ids / std::uint64_t(chunk_length());
}

void TextStore::describe(const Corpus& corpus) {
  const TokenHeader& header = text_->header();
  description_ += corpus.generated() ? "generated text" : plural(corpus.files(), "file");
  if (corpus.ignored_files() > 0) {
    description_ += " (" + plural(corpus.ignored_files(), "file") + " of other kinds left out)";
  }
  description_ += ", " +
                  (corpus.has_pairs() ? plural(header.documents / 2, "pair")
                                      : plural(header.documents, "document")) +
                  ", " + scaled(double(header.text_bytes)) + " bytes, " +
                  scaled(double(header.tokens)) + " tokens";
  if (header.skipped_lines > 0) {
    description_ += ", " + plural(header.skipped_lines, "unusable line") + " skipped";
  }
}

}  // namespace scaling
