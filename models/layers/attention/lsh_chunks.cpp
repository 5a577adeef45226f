// Buckets of directions, a counting sort, and views as unions of ascending chunks.
#include "models/layers/attention/lsh_chunks.h"

#include <algorithm>
#include <tuple>

#include "kernels/check.h"
#include "models/layers/parts/normals.h"

namespace scaling {
namespace {

constexpr std::int64_t kMostOfOneHash = 128;

/// Index of the largest of (x, -x), ties to the lowest.
std::int64_t largest_of_both(const float* x, std::int64_t n) {
  float best = x[0];
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    if (x[i] > best) best = x[i], at = i;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (-x[i] > best) best = -x[i], at = n + i;
  }
  return at;
}

}  // namespace

LshHashing split_buckets(std::int64_t buckets) {
  if (buckets <= kMostOfOneHash) return {buckets, 1};
  std::int64_t first = 2;
  while (first * first < buckets) first *= 2;
  return {first, 2 * (buckets / (2 * first))};
}

void draw_rotations(std::uint64_t seed, std::uint64_t stream, std::int64_t unit, std::int64_t d,
                    std::int64_t rounds, std::int64_t columns, float* rotations) {
  constexpr std::int64_t kMostRounds = 32768;
  SCALING_CHECK(rounds <= kMostRounds);
  std::vector<float> of_round(std::size_t(d * columns));
  for (std::int64_t round = 0; round < rounds; ++round) {
    draw_normals(seed, stream, unit * kMostRounds + round, d * columns, of_round.data());
    for (std::int64_t i = 0; i < d; ++i) {
      std::copy_n(of_round.data() + i * columns, columns,
                  rotations + (i * rounds + round) * columns);
    }
  }
}

std::int32_t bucket_of(const LshHashing& hashing, const float* rotated) {
  const std::int64_t of_first = hashing.first / 2;
  std::int64_t bucket = largest_of_both(rotated, of_first);
  if (hashing.second > 1) {
    bucket += hashing.first * largest_of_both(rotated + of_first, hashing.second / 2);
  }
  return std::int32_t(bucket);
}

std::int64_t LshCut::view() const { return std::min((before + 1 + after) * chunk, entries()); }

/// All rounds one after another, each by bucket and then by position.
void LshChunks::order(const LshCut& cut, const std::int32_t* buckets, std::int64_t n_buckets) {
  cut_ = cut;
  order_.resize(std::size_t(cut.entries()));
  starts_.resize(std::size_t(n_buckets + 1));
  for (std::int64_t round = 0; round < cut.rounds; ++round) {
    const std::int32_t* own = buckets + round * cut.length;
    std::int32_t* order = order_.data() + round * cut.length;
    std::fill(starts_.begin(), starts_.end(), 0);
    for (std::int64_t t = 0; t < cut.length; ++t) ++starts_[std::size_t(own[t]) + 1];
    for (std::size_t b = 1; b < starts_.size(); ++b) starts_[b] += starts_[b - 1];
    for (std::int64_t t = 0; t < cut.length; ++t) {
      order[starts_[std::size_t(own[t])]++] = std::int32_t(t);
    }
  }
}

void LshChunks::sort(const LshCut& cut, const std::int32_t* buckets, std::int64_t n_buckets) {
  order(cut, buckets, n_buckets);
  for (std::int64_t chunk = 0; chunk < cut.chunks(); ++chunk) {
    const Range entries = entries_of(chunk);
    std::sort(order_.begin() + entries.begin, order_.begin() + entries.end);
  }
}

void LshChunks::sort_with_codes(const LshCut& cut, const std::int32_t* buckets,
                                std::int64_t n_buckets) {
  order(cut, buckets, n_buckets);
  buckets_ = buckets;
  codes_.resize(order_.size());
  chunk_of_.resize(order_.size());
  for (std::int64_t chunk = 0; chunk < cut.chunks(); ++chunk) {
    const Range entries = entries_of(chunk);
    pairs_.clear();
    for (std::int64_t e = entries.begin; e < entries.end; ++e) {
      const std::int64_t round = e / cut.length;
      const std::int32_t t = order_[std::size_t(e)];
      pairs_.emplace_back(t, round * n_buckets + buckets[round * cut.length + t]);
      chunk_of_[std::size_t(round * cut.length + t)] = std::int32_t(chunk);
    }
    std::sort(pairs_.begin(), pairs_.end());
    for (std::int64_t i = 0; i < entries.size(); ++i) {
      const auto at = std::size_t(entries.begin + i);
      std::tie(order_[at], codes_[at]) = pairs_[std::size_t(i)];
    }
  }
}

Range LshChunks::entries_of(std::int64_t chunk) const {
  const std::int64_t n = cut_.entries();
  return {std::min(n, chunk * cut_.chunk), std::min(n, (chunk + 1) * cut_.chunk)};
}

std::span<const std::int32_t> LshChunks::positions_of(std::int64_t chunk) const {
  const Range entries = entries_of(chunk);
  return {order_.data() + entries.begin, std::size_t(entries.size())};
}

void LshChunks::collect_view(std::int64_t chunk, const std::uint8_t* seen,
                             std::vector<std::int32_t>& positions) const {
  positions.clear();
  for (std::int64_t i = 0; i < chunks_in_view(); ++i) {
    const std::int64_t other = seen_chunk(chunk, i);
    for (const std::int32_t t : positions_of(other)) {
      if (!seen || seen[t]) positions.push_back(t);
    }
  }
  std::sort(positions.begin(), positions.end());
}

std::span<const std::int64_t> LshChunks::codes_of(std::int64_t chunk) const {
  const Range entries = entries_of(chunk);
  return {codes_.data() + entries.begin, std::size_t(entries.size())};
}

void LshChunks::collect_view(std::int64_t chunk, const std::uint8_t* seen,
                             std::vector<std::int32_t>& positions,
                             std::vector<std::int64_t>& codes) {
  pairs_.clear();
  for (std::int64_t i = 0; i < chunks_in_view(); ++i) {
    const std::int64_t other = seen_chunk(chunk, i);
    const std::span<const std::int32_t> theirs = positions_of(other);
    for (std::size_t e = 0; e < theirs.size(); ++e) {
      if (!seen || seen[theirs[e]]) pairs_.emplace_back(theirs[e], codes_of(other)[e]);
    }
  }
  std::sort(pairs_.begin(), pairs_.end());
  positions.clear();
  codes.clear();
  for (const auto& [position, code] : pairs_) {
    positions.push_back(position);
    codes.push_back(code);
  }
}

std::int64_t LshChunks::times_met(std::int64_t query, std::int64_t key, bool alike) const {
  const std::int64_t n = cut_.length, chunks = cut_.chunks(), in_view = chunks_in_view();
  std::int64_t times = 0;
  for (std::int64_t of_query = 0; of_query < cut_.rounds; ++of_query) {
    const std::int32_t ours = chunk_of_[std::size_t(of_query * n + query)];
    for (std::int64_t of_key = 0; of_key < cut_.rounds; ++of_key) {
      if (alike &&
          (of_query != of_key || buckets_[of_query * n + query] != buckets_[of_key * n + key])) {
        continue;
      }
      const std::int64_t apart = chunk_of_[std::size_t(of_key * n + key)] - ours + cut_.before;
      times += (apart % chunks + chunks) % chunks < in_view;
    }
  }
  return times;
}

}  // namespace scaling
