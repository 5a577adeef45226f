// Documents of any size in pieces of bounded size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace scaling {

/// Takes a piece of a document; last: the document ends with it (the piece may be empty then).
using TextSink = std::function<void(std::string_view piece, bool last)>;

/// Where to end a piece of `text` that goes on: after a line end or before a space within the last
/// `look_back` bytes, else before an incomplete UTF-8 character, else at its size. Never 0.
std::size_t cut_position(std::string_view text, std::size_t look_back);

/// Collects a document and passes it on, at the latest whenever kPiece bytes are held.
class DocumentCutter {
 public:
  static constexpr std::size_t kPiece = std::size_t(1) << 20;

  explicit DocumentCutter(const TextSink& sink) : sink_(sink) {}
  void add(char c) {
    held_.push_back(c);
    if (held_.size() >= kPiece) cut();
  }
  void add(std::string_view text);
  /// Ends the document; false if it was empty: then the sink hears nothing of it.
  bool finish();
  /// Forgets what is held and ends the document; false if the sink has heard nothing of it.
  bool drop();
  /// Passed on so far, over all documents.
  std::uint64_t bytes() const { return bytes_; }

 private:
  void cut();
  const TextSink& sink_;
  std::string held_;
  bool begun_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace scaling
