// Added at the front, taken back in reverse: a block that becomes empty is always the last taken.
#include "models/layers/attention/bucket_lists.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {

BucketLists::BucketLists(std::int64_t units, std::int64_t rounds, std::int64_t buckets,
                         std::int64_t capacity)
    : rounds_(rounds),
      buckets_(buckets),
      of_unit_(blocks_of_unit(rounds, buckets, capacity)),
      blocks_(std::size_t(units * of_unit_)),
      latest_(std::size_t(units * rounds * buckets)),
      taken_(std::size_t(units), 0),
      listed_(std::size_t(units), 0) {}

std::uint64_t BucketLists::bytes(std::int64_t units, std::int64_t rounds, std::int64_t buckets,
                                 std::int64_t capacity) {
  return std::uint64_t(units) *
         (std::uint64_t(blocks_of_unit(rounds, buckets, capacity)) * sizeof(Block) +
          std::uint64_t(rounds * buckets) * sizeof(Place) + 2 * sizeof(std::int64_t));
}

void BucketLists::list_before(std::int64_t unit, std::int64_t position,
                              const std::int32_t* buckets) {
  std::int64_t& listed = listed_[std::size_t(unit)];
  if (position == 0) {
    std::fill_n(latest_.begin() + std::ptrdiff_t(unit * rounds_ * buckets_), rounds_ * buckets_,
                Place{});
    taken_[std::size_t(unit)] = 0;
    listed = 0;
  }
  while (listed > position) take_back(unit, buckets + (listed - 1) * rounds_);
  while (listed < position) add(unit, buckets + listed * rounds_);
}

void BucketLists::add(std::int64_t unit, const std::int32_t* buckets) {
  Block* const blocks = blocks_.data() + unit * of_unit_;
  std::int64_t& taken = taken_[std::size_t(unit)];
  const auto position = std::int32_t(listed_[std::size_t(unit)]++);
  for (std::int64_t round = 0; round < rounds_; ++round) {
    Place& first = latest_[slot(unit, round, buckets[round])];
    if (first.count == 0 || first.count == kPositions) {
      SCALING_CHECK(taken < of_unit_);
      blocks[taken].earlier = first.block;
      first = {std::int32_t(taken++), 0};
    }
    blocks[first.block].positions[std::size_t(first.count++)] = position;
  }
}

/// The latest position, which has these buckets.
void BucketLists::take_back(std::int64_t unit, const std::int32_t* buckets) {
  --listed_[std::size_t(unit)];
  for (std::int64_t round = rounds_ - 1; round >= 0; --round) {
    Place& first = latest_[slot(unit, round, buckets[round])];
    if (--first.count > 0) continue;
    SCALING_CHECK(first.block == taken_[std::size_t(unit)] - 1);
    --taken_[std::size_t(unit)];
    first = behind(block(unit, first.block));
  }
}

void BucketLists::reorder(const RowMoves& moves, std::int64_t heads, std::int64_t head) {
  std::int64_t most = 0;
  for (std::size_t unit = std::size_t(head); unit < taken_.size(); unit += std::size_t(heads)) {
    most = std::max(most, taken_[unit]);
  }
  const std::int64_t places = rounds_ * buckets_;
  moves.apply(blocks_.data() + head * of_unit_, heads * of_unit_, {0, most});
  moves.apply(latest_.data() + head * places, heads * places, {0, places});
  moves.apply(taken_.data() + head, heads, {0, 1});
  moves.apply(listed_.data() + head, heads, {0, 1});
}

}  // namespace scaling
