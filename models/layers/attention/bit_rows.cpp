// Comparisons in vectors, then eight marks to a byte by one multiplication.
#include "models/layers/attention/bit_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace scaling {

void mark_at_most(const float* x, std::int64_t n, float limit, std::uint64_t* row) {
  std::array<std::uint8_t, 64> marks{};
  for (std::int64_t begin = 0; begin < n; begin += 64) {
    const std::int64_t size = std::min<std::int64_t>(64, n - begin);
    if (size == 64) {  // of a known size, in vectors
      for (std::size_t i = 0; i < 64; ++i) marks[i] = x[begin + std::int64_t(i)] <= limit;
    } else {
      marks.fill(0);
      for (std::int64_t i = 0; i < size; ++i) marks[std::size_t(i)] = x[begin + i] <= limit;
    }
    std::uint64_t word = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, marks.data() + 8 * byte, 8);
      // Moves the lowest bit of byte i to bit 56 + i.
      word |= (eight * 0x0102040810204080u >> 56) << (8 * byte);
    }
    row[begin / 64] = word;
  }
}

}  // namespace scaling
