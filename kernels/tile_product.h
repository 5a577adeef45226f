// Products of small matrices that lie in cache: what attention multiplies in training. They copy no
// left side, start no threads, and pass over what is known to be zero or is not asked for.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace scaling {

/// Element (i, k) of a matrix is at[i * row + k * column]: a matrix or its transpose.
struct Strided {
  const float* at;
  std::int64_t row, column;
};

/// Of each row of A, what of it is not known to be zero, or what of its products is asked for: a
/// range that contains all of it. The rest may be passed over. Null: all.
using Spans = const Range*;

/// C += A B. A (m, k), of row i what is in inner[i]; B (k, n) row-major, rows ldb floats apart; C
/// (m, n), rows ldc apart. Same bits for the same arguments, wherever they lie.
void add_tile_product(std::int64_t m, std::int64_t n, std::int64_t k, Strided a, Spans inner,
                      const float* b, std::int64_t ldb, float* c, std::int64_t ldc);

/// Whole panels begin at its multiples, whatever the instruction set: there panels of all rows hold
/// panels of some.
inline constexpr std::int64_t kPanelStart = 32;

/// Floats of panels for n rows of k.
std::int64_t tile_panel_floats(std::int64_t n, std::int64_t k);

/// B (n, k) row-major, rows ldb apart, to panels: some of its rows side by side, for each of k.
void transpose_to_tile_panels(std::int64_t n, std::int64_t k, const float* b, std::int64_t ldb,
                              float* panels);

/// C = A B^T, B in panels: A (m, k), B (n, k), C (m, n) with rows ldc apart. Of row i of C
/// columns[i] are written and perhaps others.
void tile_product_of_panels(std::int64_t m, std::int64_t n, std::int64_t k, Strided a,
                            const float* panels, Spans columns, float* c, std::int64_t ldc);

}  // namespace scaling
