// Positions by the bucket that they hashed to, the latest first: a decode step reads the lists of
// its own buckets and looks at nobody else.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "models/row_moves.h"

namespace scaling {

/// Lists of several units (a head of a token), of each for every round's buckets. Blocks of a cache
/// line's size hold a list, so that following it waits for memory once in fifteen positions.
class BucketLists {
 public:
  static constexpr std::int32_t kNobody = -1;
  /// Of a position in a list; none has count 0.
  struct Place {
    std::int32_t block = kNobody, count = 0;
  };

  /// buckets: of a round. capacity: positions that a unit lists at most.
  BucketLists(std::int64_t units, std::int64_t rounds, std::int64_t buckets, std::int64_t capacity);
  static std::uint64_t bytes(std::int64_t units, std::int64_t rounds, std::int64_t buckets,
                             std::int64_t capacity);

  /// From now on a unit's lists hold the positions before this one, whatever they held. buckets:
  /// (positions, rounds) of the unit; of those that are listed they are what they were.
  void list_before(std::int64_t unit, std::int64_t position, const std::int32_t* buckets);
  /// The next position, which has these buckets, one a round.
  void add(std::int64_t unit, const std::int32_t* buckets);

  Place latest(std::int64_t unit, std::int64_t round, std::int32_t bucket) const {
    return latest_[slot(unit, round, bucket)];
  }
  /// kNobody at a list's end.
  std::int32_t position(std::int64_t unit, Place at) const {
    return at.count == 0 ? kNobody : block(unit, at.block).positions[std::size_t(at.count - 1)];
  }
  /// The one before it.
  Place earlier(std::int64_t unit, Place at) const {
    if (--at.count == 0) at = behind(block(unit, at.block));
    return at;
  }

  /// Units are (tokens, heads): those of a head move as tokens do.
  void reorder(const RowMoves& moves, std::int64_t heads, std::int64_t head);

 private:
  static constexpr std::int32_t kPositions = 15;
  struct alignas(64) Block {
    std::array<std::int32_t, kPositions> positions;
    std::int32_t earlier;  ///< a block, which is full
  };
  static std::int64_t blocks_of_unit(std::int64_t rounds, std::int64_t buckets,
                                     std::int64_t capacity) {
    return rounds * (capacity / kPositions + buckets);
  }
  static Place behind(const Block& block) {
    return {block.earlier, block.earlier == kNobody ? 0 : kPositions};
  }
  std::size_t slot(std::int64_t unit, std::int64_t round, std::int32_t bucket) const {
    return std::size_t((unit * rounds_ + round) * buckets_ + bucket);
  }
  const Block& block(std::int64_t unit, std::int32_t i) const {
    return blocks_[std::size_t(unit * of_unit_ + i)];
  }
  void take_back(std::int64_t unit, const std::int32_t* buckets);

  const std::int64_t rounds_, buckets_, of_unit_;
  std::vector<Block> blocks_;         // (units, of_unit_); a unit's are taken in turn
  std::vector<Place> latest_;         // (units, rounds, buckets)
  std::vector<std::int64_t> taken_;   // (units): blocks
  std::vector<std::int64_t> listed_;  // (units): positions
};

}  // namespace scaling
