// Counter-based random numbers (Random123's Philox): a draw is a function of (seed, stream, index),
// so neither thread count nor layout nor a restart changes it.
#pragma once

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace scaling {

/// Four independent 32-bit draws for one index of a stream.
inline std::array<std::uint32_t, 4> random_bits(std::uint64_t seed, std::uint64_t stream,
                                                std::uint64_t index) {
  const r123::Philox4x32::ctr_type counter = {{std::uint32_t(index), std::uint32_t(index >> 32),
                                               std::uint32_t(stream), std::uint32_t(stream >> 32)}};
  const r123::Philox4x32::key_type key = {{std::uint32_t(seed), std::uint32_t(seed >> 32)}};
  const auto bits = r123::Philox4x32()(counter, key);
  return {bits[0], bits[1], bits[2], bits[3]};
}

/// bits[4 * i + j] = random_bits(seed, stream, first + i)[j] for i < kCounters, in loops that
/// compilers vectorise.
template <int kCounters>
inline void many_random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                             std::uint32_t* bits) {
  std::uint32_t a[kCounters], b[kCounters], c[kCounters], d[kCounters];
  for (int i = 0; i < kCounters; ++i) {
    const std::uint64_t index = first + std::uint64_t(i);
    a[i] = std::uint32_t(index);
    b[i] = std::uint32_t(index >> 32);
    c[i] = std::uint32_t(stream);
    d[i] = std::uint32_t(stream >> 32);
  }
  auto k0 = std::uint32_t(seed), k1 = std::uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 1  // g++ would rather unroll the loop than vectorise it
    for (int i = 0; i < kCounters; ++i) {
      const std::uint64_t p = std::uint64_t(0xD2511F53u) * a[i];
      const std::uint64_t q = std::uint64_t(0xCD9E8D57u) * c[i];
      a[i] = std::uint32_t(q >> 32) ^ b[i] ^ k0;
      c[i] = std::uint32_t(p >> 32) ^ d[i] ^ k1;
      b[i] = std::uint32_t(q);
      d[i] = std::uint32_t(p);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kCounters; ++i) {
    bits[4 * i] = a[i];
    bits[4 * i + 1] = b[i];
    bits[4 * i + 2] = c[i];
    bits[4 * i + 3] = d[i];
  }
}

/// Uniform in (0, 1), 24 bits of it.
inline float unit_float(std::uint32_t bits) {
  // The largest draw would round up to 1.
  return std::min((float(bits >> 8) + 0.5f) * 0x1p-24f, 0x1.fffffep-1f);
}

/// A sequence of draws for places where an index is a nuisance: token ids, test inputs.
class Rng {
 public:
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  std::uint32_t bits() {
    if (next_ == 4) {
      block_ = random_bits(seed_, stream_, index_++);
      next_ = 0;
    }
    return block_[std::size_t(next_++)];
  }
  /// Uniform in (low, high).
  float uniform(float low, float high) { return low + (high - low) * unit_float(bits()); }
  /// Uniform in [0, n).
  std::uint32_t below(std::uint32_t n) { return std::uint32_t((std::uint64_t(bits()) * n) >> 32); }

 private:
  std::uint64_t seed_, stream_, index_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int next_ = 4;
};

}  // namespace scaling
