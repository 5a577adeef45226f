// Lists of positions by bucket against plain ones.
#include "models/layers/attention/bucket_lists.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/random.h"

namespace scaling {
namespace {

constexpr std::int64_t kRounds = 2, kBuckets = 3, kCapacity = 100;

/// (capacity, rounds), drawn.
std::vector<std::int32_t> drawn(std::uint64_t seed) {
  Rng rng(seed, 1);
  std::vector<std::int32_t> buckets(std::size_t(kCapacity * kRounds));
  for (std::int32_t& bucket : buckets) bucket = std::int32_t(rng.below(std::uint32_t(kBuckets)));
  return buckets;
}

std::vector<std::int32_t> listed(const BucketLists& lists, std::int64_t unit, std::int64_t round,
                                 std::int32_t bucket) {
  std::vector<std::int32_t> found;
  BucketLists::Place at = lists.latest(unit, round, bucket);
  for (; lists.position(unit, at) != BucketLists::kNobody; at = lists.earlier(unit, at)) {
    found.push_back(lists.position(unit, at));
  }
  return found;
}

void expect_lists(const BucketLists& lists, std::int64_t unit,
                  const std::vector<std::int32_t>& buckets, std::int64_t positions) {
  for (std::int64_t round = 0; round < kRounds; ++round) {
    for (std::int32_t bucket = 0; bucket < kBuckets; ++bucket) {
      std::vector<std::int32_t> expected;
      for (std::int64_t at = positions - 1; at >= 0; --at) {
        if (buckets[std::size_t(at * kRounds + round)] == bucket)
          expected.push_back(std::int32_t(at));
      }
      EXPECT_EQ(listed(lists, unit, round, bucket), expected)
          << positions << " positions, round " << round << ", bucket " << bucket;
    }
  }
}

TEST(BucketLists, HoldWhatCameBeforeWhereverADecodeGoesOn) {
  BucketLists lists(2, kRounds, kBuckets, kCapacity);
  std::vector<std::vector<std::int32_t>> buckets = {drawn(1), drawn(2)};
  Rng rng(3, 1);
  for (int jump = 0; jump < 200; ++jump) {
    const auto position = std::int64_t(rng.below(std::uint32_t(kCapacity + 1)));
    const std::size_t unit = rng.below(2);
    lists.list_before(std::int64_t(unit), position, buckets[unit].data());
    expect_lists(lists, std::int64_t(unit), buckets[unit], position);
    // What comes after is decoded anew.
    const std::vector<std::int32_t> other = drawn(std::uint64_t(jump) + 10);
    std::copy(other.begin() + position * kRounds, other.end(),
              buckets[unit].begin() + position * kRounds);
  }
}

TEST(BucketLists, EveryPositionInOneBucketHasRoom) {
  BucketLists lists(1, kRounds, kBuckets, kCapacity);
  const std::vector<std::int32_t> buckets(std::size_t(kCapacity * kRounds), 1);
  lists.list_before(0, kCapacity, buckets.data());
  expect_lists(lists, 0, buckets, kCapacity);
}

TEST(BucketLists, MoveAsTokensDo) {
  constexpr std::int64_t kHeads = 2, kTokens = 3;
  BucketLists lists(kTokens * kHeads, kRounds, kBuckets, kCapacity);
  std::vector<std::vector<std::int32_t>> buckets;
  for (std::int64_t unit = 0; unit < kTokens * kHeads; ++unit) {
    buckets.push_back(drawn(std::uint64_t(unit) + 1));
    lists.list_before(unit, 70, buckets.back().data());
  }
  const std::vector<int> source = {2, 0, 0};
  const RowMoves moves(source);
  for (std::int64_t head = 0; head < kHeads; ++head) lists.reorder(moves, kHeads, head);
  for (std::int64_t token = 0; token < kTokens; ++token) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::int64_t from = source[std::size_t(token)] * kHeads + head;
      expect_lists(lists, token * kHeads + head, buckets[std::size_t(from)], 70);
    }
  }
}

}  // namespace
}  // namespace scaling
