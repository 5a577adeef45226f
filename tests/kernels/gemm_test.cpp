// Every library's products against sums in double: each side transposed or not, rows apart, added
// to what is there or not, as they are and of sides rounded to bf16.
#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/random.h"

namespace scaling {
namespace {

/// rows (count, stride), all of it drawn: what lies between rows must not matter.
struct Side {
  Side(Rng& rng, bool transpose, std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : is_transposed(transpose), stride((transpose ? rows : columns) + gap) {
    values.resize(std::size_t((transpose ? columns : rows) * stride));
    for (float& value : values) value = rng.uniform(-1, 1);
  }
  float at(std::int64_t row, std::int64_t column) const {
    return values[std::size_t(is_transposed ? column * stride + row : row * stride + column)];
  }

  bool is_transposed;
  std::int64_t stride;
  std::vector<float> values;
};

struct Case {
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  float beta;
};

void expect_product(const Gemm& gemm, const Case& c, bool is_rounded) {
  SCOPED_TRACE(testing::Message() << gemm.name << (is_rounded ? ", rounded" : "") << ", "
                                  << (c.transpose_a ? "A' " : "A ")
                                  << (c.transpose_b ? "B' " : "B ") << c.m << " x " << c.k << " x "
                                  << c.n << ", beta " << c.beta);
  Rng rng(7, std::uint64_t(c.m * 1000 + c.n));
  const Side a(rng, c.transpose_a, c.m, c.k, 3), b(rng, c.transpose_b, c.k, c.n, 5);
  const std::int64_t stride = c.n + 2;
  // beta 0 reads nothing of what is there.
  const float there = c.beta == 0 ? std::numeric_limits<float>::quiet_NaN() : 0.5f;
  const std::vector<float> before(std::size_t(c.m * stride), there);
  const GemmFunction product = is_rounded ? gemm.bf16_product : gemm.product;
  const auto run = [&] {
    std::vector<float> y = before;
    product(c.transpose_a, c.transpose_b, c.m, c.n, c.k, a.values.data(), a.stride, b.values.data(),
            b.stride, c.beta, y.data(), stride);
    return y;
  };
  const std::vector<float> y = run(), again = run();
  const auto side = [&](const Side& s, std::int64_t row, std::int64_t column) {
    const float value = s.at(row, column);
    return double(is_rounded ? to_float(to_bf16(value)) : value);
  };
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < stride; ++j) {
      const auto at = std::size_t(i * stride + j);
      if (j >= c.n) {
        // Between rows nothing is written.
        EXPECT_TRUE(y[at] == there || std::isnan(there)) << i << ", " << j;
        continue;
      }
      double sum = c.beta == 0 ? 0 : double(there);
      for (std::int64_t l = 0; l < c.k; ++l) sum += side(a, i, l) * side(b, l, j);
      // Far below what rounding a side to bf16 would do: 0.004 of a factor, some 0.03 of a sum.
      ASSERT_NEAR(double(y[at]), sum, 2e-6 * std::sqrt(double(c.k)) * 8) << i << ", " << j;
      ASSERT_EQ(y[at], again[at]) << i << ", " << j;
    }
  }
}

/// Small ones, and one that is worth a plan.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const float beta : {0.0f, 1.0f}) {
        all.push_back({a, b, 1, 1, 1, beta});
        all.push_back({a, b, 5, 19, 33, beta});
        all.push_back({a, b, 67, 50, 129, beta});
      }
    }
  }
  return all;
}

TEST(GemmTest, EveryLibraryIsTheProduct) {
  for (const int threads : {1, 2}) {
    set_gemm_threads(threads);
    for (const Gemm& gemm : gemms()) {
      for (const Case& c : cases()) expect_product(gemm, c, false);
    }
  }
  set_gemm_threads(1);
}

TEST(GemmTest, EveryLibraryIsTheProductOfRoundedSides) {
  for (const int threads : {1, 2}) {
    set_gemm_threads(threads);
    for (const Gemm& gemm : gemms()) {
      for (const Case& c : cases()) expect_product(gemm, c, true);
    }
  }
  set_gemm_threads(1);
}

TEST(GemmTest, RoundingChangesTheProductAlone) {
  for (const Gemm& gemm : gemms()) {
    const Gemm rounded = rounding(gemm);
    EXPECT_STREQ(rounded.name, gemm.name);
    EXPECT_EQ(rounded.product, gemm.bf16_product);
    EXPECT_EQ(rounded.bf16_product, gemm.bf16_product);
    EXPECT_NE(rounded.product, gemm.product);
  }
}

}  // namespace
}  // namespace scaling
