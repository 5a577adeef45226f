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

/// bits[4 * i + j] = random_bits(seed, stream, first + i)[j] for i < counters, a vector of counters
/// at once.
void many_random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                      std::int64_t counters, std::uint32_t* bits);

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
