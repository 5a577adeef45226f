// Sequences of a decode that go on from one another: which rows of a state are copied, and in which
// order, so that none is overwritten before everybody has read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace scaling {

/// Row i becomes what row source[i] was, in place. A row that stays what it is costs nothing.
class RowMoves {
 public:
  /// source: one a row, of [0, source.size()); rows may be named several times or not at all.
  explicit RowMoves(std::span<const int> source);
  /// Every row stays.
  bool empty() const { return moves_.empty(); }
  /// Of rows that begin `stride` values apart, the first at `rows`, these columns.
  template <class T>
  void apply(T* rows, std::int64_t stride, Range columns) const {
    for (const Move& move : moves_) {
      T* to = rows + move.to * stride + columns.begin;
      T* from = rows + move.from * stride + columns.begin;
      if (move.swaps) {
        std::swap_ranges(from, from + columns.size(), to);
      } else {
        std::copy_n(from, columns.size(), to);
      }
    }
  }

 private:
  struct Move {
    std::int64_t to, from;
    bool swaps;
  };
  std::vector<Move> moves_;
};

}  // namespace scaling
