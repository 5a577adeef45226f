// Products of tiles against plain loops in double precision, on every instruction set.
#include "kernels/tile_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/random.h"
#include "tests/kernels/every_target.h"

namespace scaling {
namespace {

/// Written beside every output, where nothing may be written.
constexpr float kUntouched = 12345;

std::vector<float> draw(std::int64_t n, std::uint64_t stream) {
  Rng rng(3, stream);
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = rng.uniform(-1, 1);
  return x;
}

struct Shape {
  std::int64_t m, n, k;
};

/// Around the edges of blocks of every instruction set.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {1, 1, 1},     {1, 8, 5},     {2, 16, 128},  {3, 17, 129}, {5, 31, 64},    {6, 32, 16},
      {7, 33, 4},    {11, 7, 300},  {12, 64, 200}, {13, 65, 63}, {25, 3, 1},     {64, 192, 64},
      {192, 64, 64}, {64, 64, 513}, {4, 40, 24},   {64, 15, 8},  {24, 129, 130}, {37, 95, 257}};
  return all;
}

/// That c (m, ldc) is before + A B, and nothing beside its n columns was touched.
void expect_product(const Shape& s, const std::function<double(std::int64_t, std::int64_t)>& a,
                    const std::function<double(std::int64_t, std::int64_t)>& b,
                    const std::vector<float>& before, const std::vector<float>& c,
                    std::int64_t ldc) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < ldc; ++j) {
      const float found = c[std::size_t(i * ldc + j)];
      if (j >= s.n) {
        ASSERT_EQ(found, kUntouched) << i << ", " << j;
        continue;
      }
      double expected = double(before[std::size_t(i * ldc + j)]), size = std::abs(expected);
      for (std::int64_t k = 0; k < s.k; ++k) {
        expected += a(i, k) * b(k, j);
        size += std::abs(a(i, k) * b(k, j));
      }
      ASSERT_NEAR(double(found), expected, 1e-6 * size + 1e-7) << i << ", " << j;
    }
  }
}

/// (m, ldc) of noise, or zeros, and kUntouched beside it.
std::vector<float> outputs(const Shape& s, std::int64_t ldc, bool zeros) {
  std::vector<float> c = draw(s.m * ldc, 9);
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < ldc; ++j) {
      float& v = c[std::size_t(i * ldc + j)];
      v = j >= s.n ? kUntouched : zeros ? 0.0f : v;
    }
  }
  return c;
}

TEST(TileProduct, AddsTheProductOfAMatrixOrItsTranspose) {
  on_every_target([] {
    for (const Shape& s : shapes()) {
      SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
      const std::int64_t ldb = s.n + 3, ldc = s.n + 5;
      const std::vector<float> a = draw(s.m * s.k, 1), b = draw(s.k * ldb, 2);
      for (const bool transposed : {false, true}) {
        const Strided left = transposed ? Strided{a.data(), 1, s.m} : Strided{a.data(), s.k, 1};
        const std::vector<float> before = outputs(s, ldc, false);
        std::vector<float> c = before;
        add_tile_product(s.m, s.n, s.k, left, nullptr, b.data(), ldb, c.data(), ldc);
        expect_product(
            s,
            [&](std::int64_t i, std::int64_t k) {
              return double(left.at[i * left.row + k * left.column]);
            },
            [&](std::int64_t k, std::int64_t j) { return double(b[std::size_t(k * ldb + j)]); },
            before, c, ldc);
      }
    }
  });
}

TEST(TileProduct, OfPanelsIsThatWithTheTranspose) {
  on_every_target([] {
    for (const Shape& s : shapes()) {
      SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
      const std::int64_t lda = s.k + 2, ldb = s.k + 1, ldc = s.n + 5;
      const std::vector<float> a = draw(s.m * lda, 1), b = draw(s.n * ldb, 2);
      std::vector<float> panels(std::size_t(tile_panel_floats(s.n, s.k)), kUntouched);
      transpose_to_tile_panels(s.n, s.k, b.data(), ldb, panels.data());
      std::vector<float> c = outputs(s, ldc, false);
      tile_product_of_panels(s.m, s.n, s.k, {a.data(), lda, 1}, panels.data(), nullptr, c.data(),
                             ldc);
      expect_product(
          s, [&](std::int64_t i, std::int64_t k) { return double(a[std::size_t(i * lda + k)]); },
          [&](std::int64_t k, std::int64_t j) { return double(b[std::size_t(j * ldb + k)]); },
          outputs(s, ldc, true), c, ldc);
    }
  });
}

/// Of m rows ranges within n: of all lengths, some of them empty.
std::vector<Range> draw_spans(std::int64_t m, std::int64_t n) {
  Rng rng(5);
  std::vector<Range> spans;
  for (std::int64_t i = 0; i < m; ++i) {
    const auto begin = std::int64_t(rng.below(std::uint32_t(n)));
    const auto size = std::int64_t(rng.below(std::uint32_t(n - begin + 1)));
    spans.push_back({begin, begin + size});
  }
  return spans;
}

TEST(TileProduct, WhatLiesOutsideOfSpansMayBePassedOver) {
  on_every_target([] {
    for (const Shape& s : shapes()) {
      SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k);
      const std::vector<float> b = draw(s.k * s.n, 2);
      std::vector<float> a = draw(s.m * s.k, 1);
      const std::vector<Range> inner = draw_spans(s.m, s.k);
      for (std::int64_t i = 0; i < s.m; ++i) {
        const Range span = inner[std::size_t(i)];
        for (std::int64_t k = 0; k < s.k; ++k) {
          if (k < span.begin || k >= span.end) a[std::size_t(i * s.k + k)] = 0;
        }
      }
      const std::vector<float> before = outputs(s, s.n, false);
      std::vector<float> c = before;
      add_tile_product(s.m, s.n, s.k, {a.data(), s.k, 1}, inner.data(), b.data(), s.n, c.data(),
                       s.n);
      expect_product(
          s, [&](std::int64_t i, std::int64_t k) { return double(a[std::size_t(i * s.k + k)]); },
          [&](std::int64_t k, std::int64_t j) { return double(b[std::size_t(k * s.n + j)]); },
          before, c, s.n);

      // The upper rows ask for nothing in the right half: drawn spans alone may leave no tile of 12
      // x 32 out.
      std::vector<Range> columns = draw_spans(s.m, s.n);
      for (std::int64_t i = 0; i < s.m / 2; ++i) {
        Range& span = columns[std::size_t(i)];
        span.end = std::min(span.end, s.n / 2);
        span.begin = std::min(span.begin, span.end);
      }
      std::vector<float> panels(std::size_t(tile_panel_floats(s.n, s.k)));
      const std::vector<float> rows = draw(s.n * s.k, 4);
      transpose_to_tile_panels(s.n, s.k, rows.data(), s.k, panels.data());
      std::vector<float> all = outputs(s, s.n, false), some(all.size(), kUntouched);
      tile_product_of_panels(s.m, s.n, s.k, {a.data(), s.k, 1}, panels.data(), nullptr, all.data(),
                             s.n);
      tile_product_of_panels(s.m, s.n, s.k, {a.data(), s.k, 1}, panels.data(), columns.data(),
                             some.data(), s.n);
      std::int64_t passed_over = 0;
      for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          const std::size_t at = std::size_t(i * s.n + j);
          const bool asked = j >= columns[std::size_t(i)].begin && j < columns[std::size_t(i)].end;
          ASSERT_TRUE(some[at] == all[at] || (!asked && some[at] == kUntouched)) << i << ", " << j;
          passed_over += some[at] == kUntouched;
        }
      }
      EXPECT_TRUE(passed_over > 0 || s.m * s.n < 4000);
    }
  });
}

TEST(TileProduct, IsTheSameWhereverItsOperandsLie) {
  on_every_target([] {
    const Shape s = {13, 65, 200};
    std::vector<std::vector<float>> found;
    for (const std::size_t shift : {std::size_t(0), std::size_t(1), std::size_t(5)}) {
      std::vector<float> a(shift), b(shift), c(shift);
      for (const float v : draw(s.m * s.k, 1)) a.push_back(v);
      for (const float v : draw(s.k * s.n, 2)) b.push_back(v);
      for (const float v : draw(s.m * s.n, 3)) c.push_back(v);
      add_tile_product(s.m, s.n, s.k, {a.data() + shift, s.k, 1}, nullptr, b.data() + shift, s.n,
                       c.data() + shift, s.n);
      found.emplace_back(c.begin() + std::ptrdiff_t(shift), c.end());
    }
    EXPECT_EQ(found[0], found[1]);
    EXPECT_EQ(found[0], found[2]);
  });
}

}  // namespace
}  // namespace scaling
