// Where words and sentences begin among the tokens of a text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/text/tokenizer.h"

namespace scaling {

/// A tokenizer knows pieces, not words or sentences; so both are told by the pieces' characters.
class Boundaries {
 public:
  /// First tokens, ascending; the text's first token begins a word and a sentence in any case.
  struct Starts {
    std::vector<int> words, sentences;
  };

  explicit Boundaries(const Tokenizer& tokenizer);

  /// ids: a text's tokens, one at least, all of the vocabulary. A word begins with the white space
  /// before it: at a token that opens with white space behind one that does not end in it; so it
  /// is the same in bytes and in pieces. A sentence begins at a word behind a full stop, question
  /// mark or exclamation mark, closing quotes or brackets between or not, or behind a line end. So
  /// "e.g. this" is cut and "3.5" is not. White space that ends the text begins neither.
  Starts of(std::span<const int> ids) const;

 private:
  std::vector<std::string> pieces_;  // text of each id
};

/// Leaves the first sentences of a text, so many at most; 0: all of them.
void keep_sentences(const Boundaries& boundaries, std::int64_t most, std::vector<int>& ids);

}  // namespace scaling
