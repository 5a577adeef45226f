// Blocks of rows by two vectors of columns stay in registers while the inner dimension passes: one
// load of each vector and one broadcast of each row an inner step.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/tile_product.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "kernels/simd/vector-inl.h"
#include "kernels/tile_product.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kColumns = 2 * kLanes;
static_assert(kPanelStart % kColumns == 0);
/// As many as leave registers for two vectors of B and one of A.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kRows = 12;
#else
inline constexpr int kRows = 6;
#endif
/// Inner steps at once, so that the rows of B that they take stay in first-level cache.
inline constexpr std::int64_t kInner = 128;

/// n of a row's floats, at most kColumns.
template <bool kWhole>
HWY_INLINE std::array<Vector, 2> load_columns(const float* p, std::int64_t n) {
  if constexpr (kWhole) return {load(p), load(p + kLanes)};
  if (n < kLanes) return {load_first(p, n), zero()};
  return {load(p), load_first(p + kLanes, n - kLanes)};
}

template <bool kWhole>
HWY_INLINE void store_columns(const std::array<Vector, 2>& v, float* p, std::int64_t n) {
  if constexpr (kWhole) {
    store(v[0], p);
    store(v[1], p + kLanes);
  } else if (n < kLanes) {
    store_first(v[0], p, n);
  } else {
    store(v[0], p);
    store_first(v[1], p + kLanes, n - kLanes);
  }
}

/// A block of C: kRows_ rows and n columns; steps of B ldb apart.
template <int kRows_, bool kAdds, bool kWholeB, bool kWholeC>
HWY_INLINE void block(std::int64_t k, Strided a, const float* b, std::int64_t ldb, float* c,
                      std::int64_t ldc, std::int64_t n) {
  Vector sums[kRows_][2];
  unrolled<kRows_>([&](auto i) HWY_ATTR { sums[i][0] = sums[i][1] = zero(); });
  for (std::int64_t step = 0; step < k; ++step) {
    const std::array<Vector, 2> of_b = load_columns<kWholeB>(b + step * ldb, n);
    const float* of_a = a.at + step * a.column;
    unrolled<kRows_>([&](auto i) HWY_ATTR {
      const Vector left = broadcast(of_a[i * a.row]);
      sums[i][0] = hn::MulAdd(left, of_b[0], sums[i][0]);
      sums[i][1] = hn::MulAdd(left, of_b[1], sums[i][1]);
    });
  }
  unrolled<kRows_>([&](auto i) HWY_ATTR {
    float* to = c + i * ldc;
    std::array<Vector, 2> v = {sums[i][0], sums[i][1]};
    if constexpr (kAdds) {
      const std::array<Vector, 2> before = load_columns<kWholeC>(to, n);
      v = {hn::Add(before[0], v[0]), hn::Add(before[1], v[1])};
    }
    store_columns<kWholeC>(v, to, n);
  });
}

/// body(std::integral_constant of how many rows, first row, union of their spans, or all) for each
/// block of m rows.
template <class Body>
HWY_INLINE void for_blocks(std::int64_t m, Spans spans, Range all, Body&& body) {
  const auto span_of = [&](std::int64_t first, std::int64_t rows) {
    if (!spans) return all;
    Range span = {all.end, all.begin};
    for (std::int64_t i = first; i < first + rows; ++i) {
      if (spans[i].size() <= 0) continue;
      span = {std::min(span.begin, spans[i].begin), std::max(span.end, spans[i].end)};
    }
    return Range{std::max(span.begin, all.begin), std::min(span.end, all.end)};
  };
  std::int64_t first = 0;
  for (; m - first > kRows; first += kRows) {
    body(std::integral_constant<int, kRows>(), first, span_of(first, kRows));
  }
  const std::int64_t rest = m - first;
  [&]<int... kFew>(std::integer_sequence<int, kFew...>) {
    (void)((rest == kFew + 1 &&
            (body(std::integral_constant<int, kFew + 1>(), first, span_of(first, rest)), true)) ||
           ...);
  }
  (std::make_integer_sequence<int, kRows>());
}

/// C += A B of the inner steps `all` and at most kColumns columns.
template <bool kWhole>
void add_columns(std::int64_t m, std::int64_t n, Range all, Strided a, Spans inner, const float* b,
                 std::int64_t ldb, float* c, std::int64_t ldc) {
  for_blocks(m, inner, all, [&](auto rows, std::int64_t first, Range steps) {
    if (steps.size() <= 0) return;
    const Strided of_a = {a.at + first * a.row + steps.begin * a.column, a.row, a.column};
    block<rows(), true, kWhole, kWhole>(steps.size(), of_a, b + steps.begin * ldb, ldb,
                                        c + first * ldc, ldc, n);
  });
}

void AddTileProduct(std::int64_t m, std::int64_t n, std::int64_t k, Strided a, Spans inner,
                    const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  for (std::int64_t done = 0; done < k; done += kInner) {
    const Range steps = {done, std::min(done + kInner, k)};
    for (std::int64_t j = 0; j < n; j += kColumns) {
      if (n - j >= kColumns) {
        add_columns<true>(m, kColumns, steps, a, inner, b + j, ldb, c + j, ldc);
      } else {
        add_columns<false>(m, n - j, steps, a, inner, b + j, ldb, c + j, ldc);
      }
    }
  }
}

std::int64_t TilePanelFloats(std::int64_t n, std::int64_t k) {
  return (n + kColumns - 1) / kColumns * kColumns * k;
}

/// Four rows of four become columns.
HWY_INLINE void transpose_four(const float* from, std::int64_t ld, float* to,
                               std::int64_t to_next) {
  const hn::FixedTag<float, 4> four;
  const hn::FixedTag<double, 2> pairs;
  const auto row = [&](std::int64_t i) { return hn::LoadU(four, from + i * ld); };
  const auto as_pairs = [&](auto v) { return hn::BitCast(pairs, v); };
  const auto low = as_pairs(hn::InterleaveLower(four, row(0), row(1)));
  const auto more_low = as_pairs(hn::InterleaveLower(four, row(2), row(3)));
  const auto high = as_pairs(hn::InterleaveUpper(four, row(0), row(1)));
  const auto more_high = as_pairs(hn::InterleaveUpper(four, row(2), row(3)));
  const auto put = [&](std::int64_t i, auto v) {
    hn::StoreU(hn::BitCast(four, v), four, to + i * to_next);
  };
  put(0, hn::InterleaveLower(pairs, low, more_low));
  put(1, hn::InterleaveUpper(pairs, low, more_low));
  put(2, hn::InterleaveLower(pairs, high, more_high));
  put(3, hn::InterleaveUpper(pairs, high, more_high));
}

void TransposeToTilePanels(std::int64_t n, std::int64_t k, const float* b, std::int64_t ldb,
                           float* panels) {
  for (std::int64_t first = 0; first < n; first += kColumns, panels += kColumns * k) {
    const std::int64_t rows = std::min(kColumns, n - first);
    const float* from = b + first * ldb;
    const std::int64_t fast_rows = rows / 4 * 4, fast_k = k / 4 * 4;
    for (std::int64_t j = 0; j < fast_rows; j += 4) {
      for (std::int64_t step = 0; step < fast_k; step += 4) {
        transpose_four(from + j * ldb + step, ldb, panels + step * kColumns + j, kColumns);
      }
    }
    for (std::int64_t step = 0; step < k; ++step) {
      float* to = panels + step * kColumns;
      const std::int64_t done = step < fast_k ? fast_rows : 0;
      for (std::int64_t j = done; j < rows; ++j) to[j] = from[j * ldb + step];
      std::fill(to + rows, to + kColumns, 0.0f);
    }
  }
}

/// C = A B^T of one panel, at most kColumns columns.
template <bool kWhole>
void product_of_panel(std::int64_t m, std::int64_t k, Strided a, const float* panel, Spans columns,
                      Range all, float* c, std::int64_t ldc) {
  for_blocks(m, columns, all, [&](auto rows, std::int64_t first, Range asked) {
    if (asked.size() <= 0) return;
    const Strided of_a = {a.at + first * a.row, a.row, a.column};
    block<rows(), false, true, kWhole>(k, of_a, panel, kColumns, c + first * ldc + all.begin, ldc,
                                       all.size());
  });
}

void TileProductOfPanels(std::int64_t m, std::int64_t n, std::int64_t k, Strided a,
                         const float* panels, Spans columns, float* c, std::int64_t ldc) {
  for (std::int64_t j = 0; j < n; j += kColumns, panels += kColumns * k) {
    const Range all = {j, std::min(j + kColumns, n)};
    if (all.size() == kColumns) {
      product_of_panel<true>(m, k, a, panels, columns, all, c, ldc);
    } else {
      product_of_panel<false>(m, k, a, panels, columns, all, c, ldc);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling {
HWY_EXPORT(AddTileProduct);
HWY_EXPORT(TilePanelFloats);
HWY_EXPORT(TransposeToTilePanels);
HWY_EXPORT(TileProductOfPanels);

void add_tile_product(std::int64_t m, std::int64_t n, std::int64_t k, Strided a, Spans inner,
                      const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(AddTileProduct)(m, n, k, a, inner, b, ldb, c, ldc);
}

std::int64_t tile_panel_floats(std::int64_t n, std::int64_t k) {
  return HWY_DYNAMIC_DISPATCH(TilePanelFloats)(n, k);
}

void transpose_to_tile_panels(std::int64_t n, std::int64_t k, const float* b, std::int64_t ldb,
                              float* panels) {
  HWY_DYNAMIC_DISPATCH(TransposeToTilePanels)(n, k, b, ldb, panels);
}

void tile_product_of_panels(std::int64_t m, std::int64_t n, std::int64_t k, Strided a,
                            const float* panels, Spans columns, float* c, std::int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(TileProductOfPanels)(m, n, k, a, panels, columns, c, ldc);
}
}  // namespace scaling
#endif
