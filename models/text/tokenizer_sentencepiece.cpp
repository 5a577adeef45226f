// The tokenizer of the paper's models: a unigram SentencePiece vocabulary.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <fstream>
#include <iterator>
#include <unordered_map>

#include "kernels/check.h"
#include "models/text/atomic_file.h"
#include "models/text/hash.h"
#include "models/text/tokenizer.h"

namespace scaling {
namespace {

/// A piece's sign for a space: U+2581.
constexpr std::string_view kSpace = "\xe2\x96\x81";

int text_bytes(const std::string& piece) {
  std::size_t bytes = piece.size();
  for (auto at = piece.find(kSpace); at != std::string::npos; at = piece.find(kSpace, at + 1)) {
    bytes -= kSpace.size() - 1;
  }
  return int(bytes);
}

class SentencePiece : public Tokenizer {
 public:
  /// named, remedy: of messages.
  SentencePiece(std::string model, std::int64_t vocab_size, const std::string& named,
                const std::string& remedy)
      : vocab_size_(vocab_size), model_(std::move(model)) {
    Hash hash;
    hash.text(model_);
    identity_ = "sentencepiece " + hex_of(hash.value());
    const auto status =
        processor_.LoadFromSerializedProto(absl::string_view(model_.data(), model_.size()));
    if (model_.empty() || !status.ok()) {
      throw UserError(named + " is no SentencePiece model or is damaged (" + status.ToString() +
                      "); " + remedy);
    }
    if (processor_.GetPieceSize() != vocab_size || processor_.pad_id() != 0 ||
        processor_.eos_id() != 1 || processor_.unk_id() != 2) {
      throw UserError(named + " has " + std::to_string(processor_.GetPieceSize()) +
                      " pieces (pad " + std::to_string(processor_.pad_id()) + ", eos " +
                      std::to_string(processor_.eos_id()) + ", unk " +
                      std::to_string(processor_.unk_id()) + "), but vocab_size is " +
                      std::to_string(vocab_size) + " with pad 0, eos 1, unk 2; " + remedy);
    }
    for (int id = 0; id < int(vocab_size); ++id) {
      const bool empty = processor_.IsControl(id) || processor_.IsUnknown(id);
      bytes_.push_back(empty                   ? 0
                       : processor_.IsByte(id) ? 1
                                               : text_bytes(processor_.IdToPiece(id)));
    }
  }
  std::int64_t vocab_size() const override { return vocab_size_; }

  void encode(std::string_view text, std::vector<int>& ids) const override {
    std::vector<int> found;
    const auto status = processor_.Encode(absl::string_view(text.data(), text.size()), &found);
    if (!status.ok()) throw UserError("SentencePiece cannot encode a text: " + status.ToString());
    ids.insert(ids.end(), found.begin(), found.end());
  }
  std::string decode(const std::vector<int>& ids) const override {
    std::vector<int> known;
    for (const int id : ids) {
      if (id > 1 && id < int(vocab_size_)) known.push_back(id);
    }
    std::string text;
    const auto status = processor_.Decode(known, &text);
    if (!status.ok()) throw UserError("SentencePiece cannot decode ids: " + status.ToString());
    return text;
  }
  int bytes_of(int id) const override {
    return id >= 0 && id < int(bytes_.size()) ? bytes_[std::size_t(id)] : 0;
  }
  std::string identity() const override { return identity_; }
  std::string model() const override { return model_; }

 private:
  std::int64_t vocab_size_;
  std::string model_;
  std::string identity_;
  sentencepiece::SentencePieceProcessor processor_;
  std::vector<int> bytes_;
};

/// The library's own way of taking names of files splits them at commas.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::string& path) : in_(path) {
    if (!in_) throw UserError("cannot read '" + path + "'");
    Lines::Next();
  }
  bool done() const override { return done_; }
  void Next() override { done_ = !std::getline(in_, line_); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::ifstream in_;
  std::string line_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& path, std::int64_t vocab_size) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("cannot read the SentencePiece model '" + path + "'");
  return std::make_unique<SentencePiece>(std::string{std::istreambuf_iterator<char>(in), {}},
                                         vocab_size, "SentencePiece model '" + path + "'",
                                         "delete it to have it trained anew");
}

std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, std::int64_t vocab_size,
                                              const std::string& owner) {
  return std::make_unique<SentencePiece>(std::move(model), vocab_size, owner,
                                         "set vocab_size to what its model was trained with");
}

void train_sentencepiece(const std::string& text_file, std::int64_t vocab_size,
                         const std::string& path) {
  Lines lines(text_file);
  // The library aborts for want of a single line.
  if (lines.done()) throw UserError("'" + text_file + "' has no line to train SentencePiece on");
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(vocab_size)},
      {"pad_id", "0"},
      {"eos_id", "1"},
      {"unk_id", "2"},
      {"bos_id", "-1"},
      {"byte_fallback", "true"},
      // Nothing is normalised or added, so that ids give the text back byte for byte and bits per
      // byte are those of the text.
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"max_sentence_length", "4000"},
      // The sums depend on it: a fixed number gives every machine the same pieces.
      {"num_threads", "2"},
      {"minloglevel", "3"},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &lines, &model);
  if (!status.ok()) {
    throw UserError("cannot train SentencePiece with vocab_size " + std::to_string(vocab_size) +
                    " on '" + text_file + "': " + status.ToString() +
                    "; choose another vocab_size, more text (--corpus) or tokenizer bytes");
  }
  AtomicFile out(path);
  out.write(model.data(), model.size());
  out.commit();
}

}  // namespace scaling
