// The tokenizer that needs no training: bytes.
#include "models/text/tokenizer.h"

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr int kFirst = 3;

class Bytes : public Tokenizer {
 public:
  explicit Bytes(std::int64_t vocab_size) : vocab_size_(vocab_size) {}
  std::int64_t vocab_size() const override { return vocab_size_; }

  void encode(std::string_view text, std::vector<int>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(kFirst + static_cast<unsigned char>(c));
  }
  std::string decode(const std::vector<int>& ids) const override {
    std::string text;
    for (const int id : ids) {
      if (bytes_of(id) == 1) text.push_back(static_cast<char>(id - kFirst));
    }
    return text;
  }
  int bytes_of(int id) const override { return id >= kFirst && id < kFirst + 256 ? 1 : 0; }
  std::string identity() const override { return "bytes"; }

 private:
  std::int64_t vocab_size_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer(std::int64_t vocab_size) {
  if (vocab_size < kFirst + 256) {
    throw UserError("vocab_size " + std::to_string(vocab_size) +
                    " is too small for bytes: 256 and three special ids need 259; set vocab_size "
                    "259 or more");
  }
  return std::make_unique<Bytes>(vocab_size);
}

}  // namespace scaling
