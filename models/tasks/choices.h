// Random choices that several tasks make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"

namespace scaling {

/// Streams of data_seed: the order of an epoch's examples, and what is drawn within them.
enum class EpochDraws : std::uint64_t { order = 1, examples = 2 };

/// Key of what an epoch draws.
inline std::uint64_t key_of_epoch(std::uint64_t data_seed, EpochDraws draws, std::uint64_t epoch) {
  const auto bits = random_bits(data_seed, std::uint64_t(draws), epoch);
  return (std::uint64_t(bits[1]) << 32) | bits[0];
}

/// `wanted` of n things, 1 for those chosen: every choice of so many equally likely. wanted <= n.
inline std::vector<char> random_choice(std::size_t wanted, std::size_t n, Rng& rng) {
  SCALING_CHECK(wanted <= n);
  std::vector<char> chosen(n, 0);
  // Each is taken with probability wanted / left.
  for (std::size_t i = 0; i < n; ++i) {
    if (rng.below(std::uint32_t(n - i)) >= wanted) continue;
    chosen[i] = 1;
    --wanted;
  }
  return chosen;
}

/// Every order equally likely.
template <class T>
void shuffle(std::vector<T>& all, Rng& rng) {
  for (std::size_t i = all.size(); i > 1; --i) {
    std::swap(all[i - 1], all[rng.below(std::uint32_t(i))]);
  }
}

/// True for this share of the calls.
inline bool happens(double share, Rng& rng) { return double(rng.uniform(0, 1)) < share; }

}  // namespace scaling
