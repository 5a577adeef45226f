// Inputs made from targets.
#include "models/batch.h"

#include <algorithm>
#include <cstddef>

namespace scaling {

void shift_right(const std::vector<int>& ids, std::int64_t examples, std::vector<int>& shifted) {
  shifted.assign(ids.size(), 0);
  const auto length = std::ptrdiff_t(ids.size()) / examples;
  for (std::ptrdiff_t e = 0; length > 0 && e < examples; ++e) {
    const auto first = ids.begin() + e * length;
    std::copy(first, first + length - 1, shifted.begin() + e * length + 1);
  }
}

}  // namespace scaling
