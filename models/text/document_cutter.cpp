// Pieces end where a word or at least a character ends, so that tokens seldom notice.
#include "models/text/document_cutter.h"

#include <algorithm>

namespace scaling {

std::size_t cut_position(std::string_view text, std::size_t look_back) {
  const std::size_t size = text.size();
  const std::size_t lowest = size > look_back ? size - look_back : 0;
  for (std::size_t i = size; i > lowest; --i) {
    if (text[i - 1] == '\n') return i;
    if (text[i - 1] == ' ' && i > 1) return i - 1;
  }
  for (std::size_t back = 1; back <= 4 && back < size; ++back) {
    const auto c = static_cast<unsigned char>(text[size - back]);
    if ((c & 0xc0) == 0x80) continue;
    const std::size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    return length > back ? size - back : size;
  }
  return size;
}

void DocumentCutter::add(std::string_view text) {
  while (!text.empty()) {
    const std::size_t taken = std::min(text.size(), kPiece - held_.size());
    held_.append(text.substr(0, taken));
    text.remove_prefix(taken);
    if (held_.size() >= kPiece) cut();
  }
}

void DocumentCutter::cut() {
  const std::size_t end = cut_position(held_, 4096);
  begun_ = true;
  bytes_ += end;
  sink_(std::string_view(held_).substr(0, end), false);
  held_.erase(0, end);
}

bool DocumentCutter::finish() {
  if (held_.empty() && !begun_) return false;
  bytes_ += held_.size();
  sink_(held_, true);
  held_.clear();
  begun_ = false;
  return true;
}

bool DocumentCutter::drop() {
  held_.clear();
  return finish();
}

}  // namespace scaling
