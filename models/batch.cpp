// Inputs made from targets.
#include "models/batch.h"

#include <algorithm>
#include <cstddef>

namespace scaling {

void shift_right(std::span<const int> ids, std::span<int> shifted) {
  if (ids.empty()) return;
  std::copy(ids.begin(), ids.end() - 1, shifted.begin() + 1);
  shifted[0] = 0;
}

void shift_right(const std::vector<int>& ids, std::int64_t examples, std::vector<int>& shifted) {
  shifted.resize(ids.size());
  const std::size_t length = ids.size() / std::size_t(examples);
  for (std::size_t at = 0; at < ids.size(); at += length) {
    shift_right(std::span(ids).subspan(at, length), std::span(shifted).subspan(at, length));
  }
}

}  // namespace scaling
