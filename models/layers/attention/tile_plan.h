// A pattern's tiles: what of its queries and keys is multiplied together.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/attention/pattern.h"

namespace scaling {

inline constexpr std::int64_t kQueriesAtOnce = 128, kKeysAtOnce = 384;

/// Some queries and some keys of a part, by their indices in it.
struct Tile {
  std::int64_t group = 0;  ///< see TilePlan::group_size
  std::int64_t part = 0;
  Range queries, keys;
};

struct TilePlan {
  /// Tiles of at most kQueriesAtOnce queries and kKeysAtOnce keys, in the order of their groups, of
  /// parts, of queries, of keys; none that shows nothing to any of its queries.
  void make(const Pattern& pattern, const PatternCall& call);
  /// To the order for sums over queries: of parts, of keys, of queries.
  void sort_by_keys();

  /// How many neighbours to hold, of queries and of keys (HeadRows::hold), so that few come more
  /// than once in the tiles' order: all, where it returns to what lies far apart.
  std::int64_t rows_held(const PatternCall& call) const;

  const Pattern::Part& part_of(const Tile& tile) const { return parts.all[std::size_t(tile.part)]; }
  std::int64_t query(const Tile& tile, std::int64_t i) const {
    return part_of(tile).queries.at(tile.queries.begin + i);
  }
  /// Queries of a group: those from group * group_size on, whose tiles are together and are no
  /// other's. All queries, where a part visits them in an order of its own.
  std::int64_t group_size = kQueriesAtOnce;
  Pattern::Parts parts;
  std::vector<Tile> tiles;
};

}  // namespace scaling
