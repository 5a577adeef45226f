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

/// Neighbours are used where they are, others through a copy.
class HeadRows {
 public:
  Mat all;  ///< (positions, d_head)

  void load(const Mat& from, const HeadPart& part);
  void save(Mat& to, const HeadPart& part) const;

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
  float* copies(std::int64_t rows);
  const float* panels_of_all(std::int64_t first, std::int64_t rows);
  Floats copies_, panels_;
  std::int64_t part_ = -1;  // of what is in panels_
  Range which_;
  Floats panels_of_all_;           // of all positions, laid out where is_laid_out_ says so
  std::vector<char> is_laid_out_;  // of each kPanelStart positions
};

}  // namespace scaling
