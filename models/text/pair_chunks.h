// Pairs of texts as chunks of ids: a source and a target of fixed room each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "models/text/tokenizer.h"

namespace scaling {

/// What a chunk has room for, in ids.
struct ChunkShape {
  std::int64_t source = 0;
  std::int64_t target = 0;  ///< 0: chunks have one side
  /// Consecutive pairs are joined until their targets have so many ids together; 0: none are.
  std::int64_t joined = 0;
  /// Of each paragraph of a source, of which `source` is a multiple; 0: a source is one text.
  std::int64_t paragraph = 0;
  std::int64_t length() const { return source + target; }
};

/// Tokens that had no room.
struct CutTokens {
  std::uint64_t sources = 0, targets = 0;
};

/// The ids and an end, 1, as many as there is room for: of what is longer only the beginning, and
/// no end.
std::vector<int> with_end(std::vector<int> ids, std::int64_t room);

/// The paragraphs of a text: what lines without text part, each from its first line to its last.
std::vector<std::string_view> paragraphs_of(std::string_view text);

/// A source's room of ids, padded with 0, and how many tokens had none.
struct SourceIds {
  std::vector<int> ids;
  std::uint64_t tokens = 0;  ///< of the whole text
  std::uint64_t cut = 0;     ///< of them
};

/// A source as shape.source and shape.paragraph say: with_end of the whole; or of each of as many
/// paragraphs as there is room for, each padded to its own. Where paragraphs are left out, the last
/// that is not has no end either. So what is cut can be told from the ids (is_cut).
SourceIds lay_out_source(const Tokenizer& tokenizer, std::string_view text,
                         const ChunkShape& shape);

/// Whether such ids, or one of their paragraphs, have no end: because tokens are left out, or
/// because the text fills its room.
bool is_cut(std::span<const int> source, const ChunkShape& shape);

class PairChunks {
 public:
  /// Takes chunks of shape.length() ids: a source and a target, each with its end and padded with 0
  /// to its room.
  using Sink = std::function<void(const std::vector<int>& chunk)>;

  /// The tokenizer outlives this.
  PairChunks(const ChunkShape& shape, const Tokenizer& tokenizer, Sink sink);
  /// A pair goes into the chunk of the one before it if the targets there have fewer than
  /// shape.joined ids and both sides, a space between the texts, still fit whole with their ends.
  /// So only a single pair is ever cut. Sources of paragraphs are not joined: shape.joined is 0.
  void add(std::string_view source, std::string_view target);
  /// Passes on what is held back for more to join.
  void finish();
  /// Of the chunks so far.
  const CutTokens& cut() const { return cut_; }

 private:
  /// chunk: the source in its room; target: its ids alone.
  void pass_on(std::vector<int> chunk, std::vector<int> target);

  ChunkShape shape_;
  const Tokenizer& tokenizer_;
  Sink sink_;
  std::vector<int> source_, target_;  // of the pairs held back
  bool holds_ = false;
  CutTokens cut_;
};

}  // namespace scaling
