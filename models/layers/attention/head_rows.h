// Rows of one head's queries or keys, of which a tile takes some.
#pragma once

#include <vector>

#include "kernels/gemm.h"
#include "models/layers/attention/pattern.h"
#include "models/matrix.h"

namespace scaling {

/// Neighbours are used where they are, others through a copy.
class HeadRows {
 public:
  Mat all;  ///< (positions, d_head)

  /// Some of the positions' rows one after another; until the next call of this or of add_product.
  const float* take(const Positions& positions, Range which);
  /// Adds a' b to these rows: a' (rows, inner) is a, or its transpose; b (inner, d_head).
  void add_product(const Gemm& gemm, bool transpose_a, const float* a, std::int64_t lda,
                   const float* b, std::int64_t inner, const Positions& positions, Range which);

 private:
  float* copies(std::int64_t rows);
  std::vector<float> copies_;
};

}  // namespace scaling
