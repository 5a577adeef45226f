// Which library is taken for a shape: which it is depends on the machine, that it is one does not.
#include "kernels/gemm_rate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace scaling {
namespace {

bool is_linked(const Gemm& gemm) {
  return std::any_of(gemms().begin(), gemms().end(),
                     [&](const Gemm& linked) { return &linked == &gemm; });
}

TEST(FastestGemm, IsOneOfThisBuildAndStaysForAShape) {
  const Gemm& first = fastest_gemm(96, 32, 64);
  EXPECT_TRUE(is_linked(first));
  EXPECT_EQ(&fastest_gemm(96, 32, 64), &first);
  EXPECT_TRUE(is_linked(fastest_gemm(1, 1, 1)));
  EXPECT_TRUE(is_linked(find_gemm("auto")));
}

TEST(FastestGemm, TakesNoMemoryOfHugeShapes) {
  constexpr std::int64_t kHuge = std::int64_t(1) << 40;  // a row of it would be 4 TiB
  EXPECT_TRUE(is_linked(fastest_gemm(kHuge, 8, 16)));
}

}  // namespace
}  // namespace scaling
