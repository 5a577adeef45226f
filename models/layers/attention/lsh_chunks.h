// Who is near whom in the LSH attention: hash buckets of directions, and the list of positions
// sorted by them and cut into chunks (paper 4.4, steps 1 to 4).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace scaling {

/// The buckets of one round: those of one hash, or of two together.
struct LshHashing {
  std::int64_t first = 2, second = 1;
  std::int64_t buckets() const { return first * second; }
  /// Random directions; a bucket is a direction or its opposite.
  std::int64_t columns() const { return first / 2 + second / 2; }
};

/// More than 128 buckets are made of two hashes, which costs a root of as many products; they are
/// fewer than asked for, if their number does not split.
LshHashing split_buckets(std::int64_t buckets);

/// Directions (d, rounds * columns) of the unit-th of a stream: a round's are the same however many
/// rounds there are, at most 32,768, so that whoever shares a bucket among fewer does among more.
void draw_rotations(std::uint64_t seed, std::uint64_t stream, std::int64_t unit, std::int64_t d,
                    std::int64_t rounds, std::int64_t columns, float* rotations);

/// rotated: a vector's products with one round's directions.
std::int32_t bucket_of(const LshHashing& hashing, const float* rotated);

/// Cut of the sorted list of a sequence: all rounds one after another, `length` entries each.
struct LshCut {
  std::int64_t length = 0, rounds = 0;
  std::int64_t chunk = 0;              ///< entries; the last chunk may have fewer
  std::int64_t before = 0, after = 0;  ///< chunks that a chunk sees beside itself

  std::int64_t entries() const { return rounds * length; }
  std::int64_t chunks() const { return (entries() + chunk - 1) / chunk; }
  /// Entries that a chunk sees, at most.
  std::int64_t view() const;
};

/// One sequence's positions as hashed, sorted and cut.
class LshChunks {
 public:
  /// buckets: (rounds, length), below n_buckets; they stay the caller's, and as they are.
  void sort(const LshCut& cut, const std::int32_t* buckets, std::int64_t n_buckets);
  /// The same, beside it the entries' codes, a number for each bucket of each round, and the chunk
  /// of every entry.
  void sort_with_codes(const LshCut& cut, const std::int32_t* buckets, std::int64_t n_buckets);
  /// Entries of the sorted list.
  Range entries_of(std::int64_t chunk) const;
  /// Their positions, ascending: within a chunk nothing depends on buckets.
  std::span<const std::int32_t> positions_of(std::int64_t chunk) const;
  /// Positions in view of a chunk but for padding, ascending; one that two rounds have brought here
  /// is there twice. The list is a circle; a chunk that would come round twice is seen once. seen:
  /// (length), 0: padding; null: there is none.
  void collect_view(std::int64_t chunk, const std::uint8_t* seen,
                    std::vector<std::int32_t>& positions) const;
  // Of what was sorted with codes.
  std::span<const std::int64_t> codes_of(std::int64_t chunk) const;
  /// As collect_view, with the entries' codes.
  void collect_view(std::int64_t chunk, const std::uint8_t* seen,
                    std::vector<std::int32_t>& positions, std::vector<std::int64_t>& codes);
  /// How many of the key's entries are in view of the query's, in all rounds together; alike: of
  /// those of one code.
  std::int64_t times_met(std::int64_t query, std::int64_t key, bool alike) const;
  /// Numbers held.
  std::int64_t elements() const {
    return std::int64_t(order_.capacity() + starts_.capacity() + codes_.capacity() +
                        chunk_of_.capacity() + 2 * pairs_.capacity());
  }

 private:
  using Entry = std::pair<std::int32_t, std::int64_t>;  // position and code

  void order(const LshCut& cut, const std::int32_t* buckets, std::int64_t n_buckets);
  std::int64_t chunks_in_view() const {
    return std::min(cut_.before + 1 + cut_.after, cut_.chunks());
  }
  /// The i-th chunk that a chunk sees, in a circle.
  std::int64_t seen_chunk(std::int64_t chunk, std::int64_t i) const {
    const std::int64_t chunks = cut_.chunks();
    return ((chunk - cut_.before + i) % chunks + chunks) % chunks;
  }

  LshCut cut_;
  std::vector<std::int32_t> order_;
  std::vector<std::int64_t> starts_;  // of buckets, while sorting
  const std::int32_t* buckets_ = nullptr;
  std::vector<std::int64_t> codes_;     // of order_
  std::vector<std::int32_t> chunk_of_;  // (rounds, length)
  std::vector<Entry> pairs_;            // of a chunk or a view
};

}  // namespace scaling
