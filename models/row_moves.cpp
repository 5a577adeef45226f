// First the rows that nobody reads any more are overwritten; what then remains are circles.
#include "models/row_moves.h"

#include "kernels/check.h"

namespace scaling {

RowMoves::RowMoves(std::span<const int> source) {
  const std::size_t n = source.size();
  const auto source_of = [&](std::size_t row) { return std::size_t(source[row]); };
  std::vector<int> readers(n, 0);  // rows that are still to be made of each
  std::vector<std::uint8_t> is_made(n, 0);
  for (std::size_t row = 0; row < n; ++row) {
    SCALING_CHECK(source[row] >= 0 && source_of(row) < n);
    is_made[row] = source_of(row) == row;
    if (!is_made[row]) ++readers[source_of(row)];
  }
  const auto make = [&](std::size_t row, bool swaps) {
    moves_.push_back({std::int64_t(row), std::int64_t(source_of(row)), swaps});
    is_made[row] = 1;
  };
  for (std::size_t first = 0; first < n; ++first) {
    for (std::size_t row = first; !is_made[row] && readers[row] == 0; row = source_of(row)) {
      make(row, /*swaps=*/false);
      --readers[source_of(row)];
    }
  }
  // Every row that is left is read by one other: what the first of a circle was travels round it.
  for (std::size_t first = 0; first < n; ++first) {
    if (is_made[first]) continue;
    std::size_t row = first;
    for (; source_of(row) != first; row = source_of(row)) make(row, /*swaps=*/true);
    is_made[row] = 1;
  }
}

}  // namespace scaling
