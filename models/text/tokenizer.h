// Text to ids and back. Ids: 0 padding and start, 1 end of a document, 2 unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace scaling {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;
  /// Appends the ids of a text, without an end. Malformed UTF-8 is taken as it comes (bytes) or as
  /// the replacement character.
  virtual void encode(std::string_view text, std::vector<int>& ids) const = 0;
  virtual std::string decode(const std::vector<int>& ids) const = 0;
  /// Bytes of text that an id stands for; 0 for padding, end and unknown.
  virtual int bytes_of(int id) const = 0;
  /// Differs between tokenizers that give a text different ids.
  virtual std::string identity() const = 0;
  /// The bytes that it can be made of again: of SentencePiece its model file, of bytes none.
  virtual std::string model() const { return ""; }
};

/// Byte b is id b + 3; needs vocab_size >= 259. Larger ids are free for sentinels.
std::unique_ptr<Tokenizer> make_byte_tokenizer(std::int64_t vocab_size);
/// A trained SentencePiece model file; throws UserError if missing, damaged or of another size.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path, std::int64_t vocab_size);
/// Of such a file's bytes; owner: what they come from, for messages ("the vocabulary of ...").
/// Throws UserError as load_sentencepiece.
std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, std::int64_t vocab_size,
                                              const std::string& owner);
/// Trains one (unigram, pad 0, eos 1, unk 2, no bos, byte fallback, no normalisation: text comes
/// back as it was) on the lines of a text file; lines over 4,000 bytes are passed over. Throws
/// UserError if vocab_size is too large or too small for the text.
void train_sentencepiece(const std::string& text_file, std::int64_t vocab_size,
                         const std::string& path);

}  // namespace scaling
