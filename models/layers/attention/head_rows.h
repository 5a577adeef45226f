// Rows of one head's queries or keys, of which a tile takes some.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tile_product.h"
#include "models/layers/attention/pattern.h"
#include "models/matrix.h"

namespace scaling {

/// One head's columns of one example's rows.
struct HeadPart {
  std::int64_t row, column, rows, d;
};

/// Rows of a head's part of a matrix, side by side. They come when they are asked for, and where
/// fewer are held than there are, those that come take the place of all that were here: so what a
/// tile works on is in cache. Neighbours are used where they are, others through a copy.
class HeadRows {
 public:
  /// at_once: at most so many are taken.
  explicit HeadRows(std::int64_t at_once) : at_once_(at_once) {}
  /// From now on rows of `from`, which has to stay as it is.
  void load(const Mat& from, const HeadPart& part);
  /// From now on sums that begin at zero, and are all in `to` after finish().
  void sum_into(Mat& to, const HeadPart& part);
  /// Of these no more than so many at a time, a multiple of kPanelStart, and that more than anybody
  /// asks for at once; unless some were asked for before.
  void hold(std::int64_t rows);
  /// Of all rows, or of these, from a multiple of kPanelStart to another or to the last: of what
  /// changes later finish() has to be called again.
  void finish();
  void finish(Range rows);

  /// (positions, d_head); from now on all are held.
  const Mat& all();
  /// One position's; until the next call of anything.
  const float* row(std::int64_t position);
  float* row_to_change(std::int64_t position);
  /// Some of the positions' rows one after another; until the next call of this, of panels or of
  /// add_product.
  const float* take(const Positions& positions, Range which);
  /// The same rows in panels (kernels/tile_product.h), until others are asked for or rows are
  /// loaded. positions: those of the plan's `part`. Where all of these are neighbours, rows from a
  /// multiple of kPanelStart on are laid out once, whatever tiles take them.
  const float* panels(std::int64_t part, const Positions& positions, Range which);
  /// Adds a b to these rows: a (rows, inner), within its spans; b (inner, d_head).
  void add_product(Strided a, Spans inner_of_rows, const float* b, std::int64_t inner,
                   const Positions& positions, Range which);

 private:
  void begin(const HeadPart& part, std::int64_t stride);
  void leave();
  float* bring(Range rows, bool to_change);
  float* bring_row(std::int64_t position);
  void save(Range rows);
  float* here(std::int64_t position) { return rows_.row(position - first_).data(); }
  template <class Is, class Visit>
  void for_blocks(Range rows, Is&& is, Visit&& visit);
  static void set(std::vector<char>& of_blocks, Range rows, char to);
  float* copies(std::int64_t rows);
  const float* panels_of_held(std::int64_t first, std::int64_t rows);

  std::int64_t at_once_, positions_ = 0, d_ = 0, held_ = 0;
  const float* from_ = nullptr;  // the first row; or
  float* to_ = nullptr;
  std::int64_t stride_ = 0;
  Mat rows_;                // (held, d_head) once some were asked for
  std::int64_t first_ = 0;  // the position of the first of them, a multiple of kPanelStart
  /// Of each kPanelStart positions: whether they are here; whether `to` has their sums; whether
  /// their panels are laid out.
  std::vector<char> is_here_, is_saved_, is_laid_out_;
  Floats panels_of_held_;
  Floats copies_, panels_;
  std::int64_t part_ = -1;  // of what is in panels_
  Range which_;
};

}  // namespace scaling
