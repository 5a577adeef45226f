// Draws of many counters at once are those of one after another, which Random123 makes.
#include "kernels/random.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/every_target.h"

namespace scaling {
namespace {

constexpr std::uint32_t kUntouched = 12345;
constexpr std::uint64_t kHigh = std::uint64_t(1) << 32;  // where a number's upper half begins

void expect_draws(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                  std::int64_t counters) {
  std::vector<std::uint32_t> bits(std::size_t(4 * counters + 64), kUntouched);
  many_random_bits(seed, stream, first, counters, bits.data());
  for (std::int64_t i = 0; i < counters; ++i) {
    const auto one = random_bits(seed, stream, first + std::uint64_t(i));
    for (std::size_t j = 0; j < 4; ++j) {
      ASSERT_EQ(bits[std::size_t(4 * i) + j], one[j]) << "draw " << j << " of counter " << i;
    }
  }
  for (std::size_t i = std::size_t(4 * counters); i < bits.size(); ++i) {
    ASSERT_EQ(bits[i], kUntouched) << "behind the draws";
  }
}

TEST(ManyRandomBits, AreThoseOfEachCounter) {
  on_every_target([] {
    for (std::int64_t counters = 0; counters <= 70; ++counters) {
      SCOPED_TRACE(counters);
      expect_draws(1, 2, 3, counters);
    }
    for (const std::uint64_t number : {kHigh - 1, kHigh, 5 * kHigh + 7, ~std::uint64_t(0) - 200}) {
      SCOPED_TRACE(number);
      expect_draws(number, 2, 3, 33);
      expect_draws(1, number, 3, 33);
      expect_draws(1, 2, number, 33);
      expect_draws(1, 2, number - 9, 33);
    }
  });
}

}  // namespace
}  // namespace scaling
