// Greedy filling of memory, family first.
#include "experiments/decode/grouping.h"

namespace scaling {

std::vector<std::vector<std::size_t>> group_rows(const std::vector<Load>& rows,
                                                 std::uint64_t limit) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<bool> placed(rows.size(), false);
  for (std::size_t first = 0; first < rows.size(); ++first) {
    if (placed[first]) continue;
    std::vector<std::size_t> group{first};
    placed[first] = true;
    std::uint64_t used = rows[first].bytes;
    for (const bool family_only : {true, false}) {
      for (std::size_t i = first + 1; i < rows.size(); ++i) {
        const bool kin = rows[i].family == rows[first].family;
        // Written without a sum that could wrap around.
        if (placed[i] || (family_only && !kin) || used > limit || rows[i].bytes > limit - used)
          continue;
        group.push_back(i);
        placed[i] = true;
        used += rows[i].bytes;
      }
    }
    groups.push_back(group);
  }
  return groups;
}

}  // namespace scaling
