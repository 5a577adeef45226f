// Which rows are in memory together, so that their decodes can be interleaved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace scaling {

struct Load {
  std::uint64_t bytes = 0;  ///< weights and caches of a row
  std::string family;       ///< the row it is compared with
};

/// Indices of rows, group after group, each row once. A group is opened by the first row left,
/// joined by its family as far as `limit` bytes allow, then by whatever else still fits. A row
/// larger than the limit is alone.
std::vector<std::vector<std::size_t>> group_rows(const std::vector<Load>& rows,
                                                 std::uint64_t limit);

}  // namespace scaling
