// A random order of n things that needs no memory.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/random.h"

namespace scaling {

/// A bijection of [0, n), chosen by the key: a Feistel network over the next even number of bits,
/// walked along until it is within [0, n) again (at most four steps in the mean).
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key) : n_(n), key_(key) {
    const int bits = n > 1 ? int(std::bit_width(n - 1)) : 1;
    half_ = (bits + 1) / 2;
  }

  std::uint64_t operator()(std::uint64_t index) const {
    do index = shuffled(index);
    while (index >= n_);
    return index;
  }

 private:
  std::uint64_t shuffled(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t(1) << half_) - 1;
    std::uint64_t left = x >> half_, right = x & mask;
    for (std::uint64_t round = 0; round < 6; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(key_, round, right)[0] & mask);
      left = right;
      right = mixed;
    }
    return (left << half_) | right;
  }

  std::uint64_t n_, key_;
  int half_ = 1;
};

}  // namespace scaling
