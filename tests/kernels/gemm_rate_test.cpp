// Which library is taken for a shape: which it is depends on the machine, that it is one does not.
#include "kernels/gemm_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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
}

TEST(FindGemm, IsTheNamedOneOrByTheBuildAloneAuto) {
  for (const Gemm& gemm : gemms()) EXPECT_EQ(&find_gemm(gemm.name), &gemm);
  std::string first;
  for (const char* name : {"eigen", "openblas", "onednn"}) {
    for (const Gemm& gemm : gemms()) first = std::string(gemm.name) == name ? name : first;
  }
  EXPECT_EQ(find_gemm("auto").name, first);
}

TEST(FastestGemm, TakesNoMemoryOfHugeShapes) {
  constexpr std::int64_t kHuge = std::int64_t(1) << 40;  // a row of it would be 4 TiB
  EXPECT_TRUE(is_linked(fastest_gemm(kHuge, 8, 16)));
}

}  // namespace
}  // namespace scaling
