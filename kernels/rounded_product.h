// A product's sides rounded to bf16, and the product of such sides by a library that has f32
// products alone.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/gemm.h"
#include "kernels/parallel.h"

namespace scaling {

inline void round_row(const float* from, std::int64_t n, bf16* to) {
  // The processor's rounding is several times faster.
  if (bf16_dot::is_supported()) return bf16_dot::round(from, n, to);
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_bf16(from[i]);
}
inline void round_row(const float* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(to_bf16(from[i]));
}

/// to (rows, columns) = from (rows, columns; `stride` floats apart), rounded; as bf16 or as floats.
template <class To>
void round_rows(const float* from, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                To* to) {
  parallel_for(rows, [=](std::int64_t begin, std::int64_t end) {
    if (stride == columns) {
      round_row(from + begin * columns, (end - begin) * columns, to + begin * columns);
      return;
    }
    for (std::int64_t r = begin; r < end; ++r) {
      round_row(from + r * stride, columns, to + r * columns);
    }
  });
}

/// One side of a product, rounded and without gaps between its rows; `memory` keeps it.
template <class To>
const To* rounded_side(bool transpose, std::int64_t rows, std::int64_t columns, const float* side,
                       std::int64_t stride, std::vector<To>& memory) {
  if (std::int64_t(memory.size()) < rows * columns) memory.resize(std::size_t(rows * columns));
  round_rows(side, transpose ? columns : rows, transpose ? rows : columns, stride, memory.data());
  return memory.data();
}

/// Gemm::bf16_product by f32's.
template <GemmFunction product>
void rounded_product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, const float* a, std::int64_t lda, const float* b,
                     std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  thread_local std::vector<float> left, right;
  const float* const rounded_a = rounded_side(transpose_a, m, k, a, lda, left);
  const float* const rounded_b = rounded_side(transpose_b, k, n, b, ldb, right);
  product(transpose_a, transpose_b, m, n, k, rounded_a, transpose_a ? m : k, rounded_b,
          transpose_b ? k : n, beta, c, ldc);
}

}  // namespace scaling
