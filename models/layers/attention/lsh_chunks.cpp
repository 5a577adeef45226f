// Buckets of directions, a counting sort, and views as unions of ascending chunks.
#include "models/layers/attention/lsh_chunks.h"

#include <algorithm>

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

std::int32_t bucket_of(const LshHashing& hashing, const float* rotated) {
  const std::int64_t of_first = hashing.first / 2;
  std::int64_t bucket = largest_of_both(rotated, of_first);
  if (hashing.second > 1) {
    bucket += hashing.first * largest_of_both(rotated + of_first, hashing.second / 2);
  }
  return std::int32_t(bucket);
}

std::int64_t LshCut::view() const { return std::min((before + 1 + after) * chunk, entries()); }

void LshChunks::sort(const LshCut& cut, const std::int32_t* buckets, std::int64_t n_buckets) {
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
  for (std::int64_t chunk = 0; chunk < cut.chunks(); ++chunk) {
    const Range entries = entries_of(chunk);
    std::sort(order_.begin() + entries.begin, order_.begin() + entries.end);
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
  const std::int64_t chunks = cut_.chunks();
  const std::int64_t in_view = std::min(cut_.before + 1 + cut_.after, chunks);
  for (std::int64_t i = 0; i < in_view; ++i) {
    const std::int64_t other = ((chunk - cut_.before + i) % chunks + chunks) % chunks;
    for (const std::int32_t t : positions_of(other)) {
      if (!seen || seen[t]) positions.push_back(t);
    }
  }
  std::sort(positions.begin(), positions.end());
}

}  // namespace scaling
