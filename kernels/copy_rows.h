// Some columns of a matrix, copied.
#pragma once

#include <algorithm>
#include <cstdint>

namespace scaling {

/// to[i][j] = from[i][j] for i < rows, j < columns; rows lie from_stride and to_stride floats
/// apart. Lines are asked for ahead: of wide matrices each row is on a page of its own, where no
/// processor prefetches.
inline void copy_rows(std::int64_t rows, std::int64_t columns, const float* from,
                      std::int64_t from_stride, float* to, std::int64_t to_stride) {
  constexpr std::int64_t kLead = 12;
  for (std::int64_t i = 0; i < rows; ++i) {
#if defined(__GNUC__)
    constexpr std::int64_t kLine = 16;
    for (std::int64_t j = 0; i + kLead < rows && j < columns; j += kLine) {
      __builtin_prefetch(from + (i + kLead) * from_stride + j, 0);
      __builtin_prefetch(to + (i + kLead) * to_stride + j, 1);
    }
#endif
    std::copy_n(from + i * from_stride, columns, to + i * to_stride);
  }
}

}  // namespace scaling
