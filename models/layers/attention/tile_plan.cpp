// Cutting parts into tiles.
#include "models/layers/attention/tile_plan.h"

#include <algorithm>
#include <tuple>

#include "kernels/tile_product.h"

namespace scaling {

void TilePlan::make(const Pattern& pattern, const PatternCall& call) {
  parts.clear();
  pattern.cut(call, parts);
  tiles.clear();
  const bool in_order = std::all_of(parts.all.begin(), parts.all.end(),
                                    [](const auto& part) { return part.queries.are_neighbours(); });
  group_size = in_order ? kQueriesAtOnce : call.queries;
  for (std::size_t p = 0; p < parts.all.size(); ++p) {
    const Pattern::Part& part = parts.all[p];
    for (std::int64_t i = 0, end = 0; i < part.queries.n; i = end) {
      const std::int64_t group = in_order ? part.queries.at(i) / kQueriesAtOnce : 0;
      end = in_order ? (group + 1) * kQueriesAtOnce - part.queries.first : i + kQueriesAtOnce;
      end = std::min(end, part.queries.n);
      Range seen = {part.keys.n, 0};
      for (std::int64_t m = i; m < end; ++m) {
        const Range keys = pattern.visible(call, part, m);
        if (keys.size() <= 0) continue;
        seen = {std::min(seen.begin, keys.begin), std::max(seen.end, keys.end)};
      }
      if (part.keys.are_neighbours() && seen.size() > 0) {
        // From where panels begin on, which other tiles share.
        seen.begin =
            std::max<std::int64_t>(0, seen.begin - (part.keys.first + seen.begin) % kPanelStart);
      }
      for (std::int64_t key = seen.begin; key < seen.end; key += kKeysAtOnce) {
        tiles.push_back(
            {group, std::int64_t(p), {i, end}, {key, std::min(key + kKeysAtOnce, seen.end)}});
      }
    }
  }
  if (parts.all.size() == 1) return;  // they are in order
  std::sort(tiles.begin(), tiles.end(), [](const Tile& one, const Tile& other) {
    return std::tuple(one.group, one.part, one.queries.begin, one.keys.begin) <
           std::tuple(other.group, other.part, other.queries.begin, other.keys.begin);
  });
}

void TilePlan::sort_by_keys() {
  std::sort(tiles.begin(), tiles.end(), [](const Tile& one, const Tile& other) {
    return std::tuple(one.part, one.keys.begin, one.queries.begin) <
           std::tuple(other.part, other.keys.begin, other.queries.begin);
  });
}

}  // namespace scaling
