// Cutting parts into tiles.
#include "models/layers/attention/tile_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/tile_product.h"

namespace scaling {
namespace {

/// Few enough for the largest cache, and so many that what neighbouring tiles share seldom comes
/// again.
constexpr std::int64_t kHeld = 2048;
static_assert(kHeld % kPanelStart == 0 && kHeld >= kKeysAtOnce + kPanelStart);

/// How many rows come, some more than once, if kHeld neighbours are held. of(tile): positions and
/// which of them.
template <class Of>
std::int64_t rows_brought(const std::vector<Tile>& tiles, Of&& of) {
  std::int64_t brought = 0;
  Range held = {0, kHeld}, here = {0, 0};
  for (const Tile& tile : tiles) {
    const auto& [positions, which] = of(tile);
    for (std::int64_t i = which.begin, n = 0; i < which.end; i += n) {
      n = std::min(positions.neighbours(i), which.end - i);
      const Range rows = {positions.at(i), positions.at(i) + n};
      if (rows.begin < held.begin || rows.end > held.end) {
        held = {rows.begin, rows.begin + kHeld};
        here = {rows.begin, rows.begin};
      }
      const Range both = {std::min(here.begin, rows.begin), std::max(here.end, rows.end)};
      brought += both.size() - here.size();
      here = both;
    }
  }
  return brought;
}

}  // namespace

std::int64_t TilePlan::rows_held(const PatternCall& call) const {
  const std::int64_t all = std::max(call.queries, call.keys);
  if (all <= kHeld) return all;
  const auto few = [](std::int64_t rows) { return rows + rows / 2; };
  const std::int64_t queries = rows_brought(tiles, [&](const Tile& tile) {
    return std::pair<const Positions&, Range>(part_of(tile).queries, tile.queries);
  });
  if (queries > few(call.queries)) return all;
  const std::int64_t keys = rows_brought(tiles, [&](const Tile& tile) {
    return std::pair<const Positions&, Range>(part_of(tile).keys, tile.keys);
  });
  return keys > few(call.keys) ? all : kHeld;
}

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
