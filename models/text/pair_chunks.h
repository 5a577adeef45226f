// Pairs of texts as chunks of ids: a source and a target of fixed room each.
#pragma once

#include <cstdint>
#include <functional>
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
  std::int64_t length() const { return source + target; }
};

/// Tokens that had no room.
struct CutTokens {
  std::uint64_t sources = 0, targets = 0;
};

/// The ids and an end, 1, as many as there is room for: of what is longer only the beginning, and
/// no end.
std::vector<int> with_end(std::vector<int> ids, std::int64_t room);

class PairChunks {
 public:
  /// Takes chunks of shape.length() ids: a source and a target, each with its end and padded with 0
  /// to its room.
  using Sink = std::function<void(const std::vector<int>& chunk)>;

  /// The tokenizer outlives this.
  PairChunks(const ChunkShape& shape, const Tokenizer& tokenizer, Sink sink);
  /// A pair goes into the chunk of the one before it if the targets there have fewer than
  /// shape.joined ids and both sides, a space between the texts, still fit whole with their ends.
  /// So only a single pair is ever cut.
  void add(std::string_view source, std::string_view target);
  /// Passes on what is held back for more to join.
  void finish();
  /// Of the chunks so far.
  const CutTokens& cut() const { return cut_; }

 private:
  ChunkShape shape_;
  const Tokenizer& tokenizer_;
  Sink sink_;
  std::vector<int> source_, target_;  // of the pairs held back
  bool holds_ = false;
  CutTokens cut_;
};

}  // namespace scaling
