// Memory that is read soon: a kernel that multiplies longer than it reads asks for it meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/weight.h"

namespace scaling {

/// A few stretches of memory, in the order in which the calling thread reads them later; no more
/// than a second-level cache keeps beside what is at hand. What finds no room is left out: it is
/// read when its time comes.
class Ahead {
 public:
  void add(const void* data, std::int64_t bytes) {
    bytes = std::min(bytes, room_);
    if (bytes <= 0 || count_ == kMost) return;
    pieces_[count_++] = {static_cast<const char*>(data), bytes};
    room_ -= bytes;
  }
  /// Of a matrix in rows.
  void add_rows(const WeightView& w, std::int64_t begin, std::int64_t end) {
    const std::int64_t row = w.cols * bytes_of(w.type);
    add(static_cast<const char*>(w.data) + begin * row, (end - begin) * row);
  }
  /// Of a matrix in panels: rows [begin, end) of the panels of columns [from, to), panel by panel.
  void add_panels(const WeightView& w, std::int64_t begin, std::int64_t end, std::int64_t from,
                  std::int64_t to) {
    const std::int64_t row = kPanel * bytes_of(w.type);
    for (std::int64_t p = from / kPanel; p < panel_count(to); ++p) {
      add(static_cast<const char*>(w.data) + (p * w.rows + begin) * row, (end - begin) * row);
    }
  }
  bool empty() const { return first_ == count_; }
  /// The start of the next `bytes` bytes, which are taken off; null if nothing is left. At the end
  /// of a stretch there may be fewer: prefetching beyond it does no harm.
  const char* take(std::int64_t bytes) {
    if (empty()) return nullptr;
    Piece& piece = pieces_[first_];
    const char* const start = piece.data;
    piece.data += bytes;
    piece.bytes -= bytes;
    if (piece.bytes <= 0) ++first_;
    return start;
  }

 private:
  static constexpr std::size_t kMost = 32;
  struct Piece {
    const char* data;
    std::int64_t bytes;
  };
  std::array<Piece, kMost> pieces_;
  std::size_t first_ = 0, count_ = 0;
  std::int64_t room_ = 384 << 10;
};

}  // namespace scaling
