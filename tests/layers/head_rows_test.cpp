// Rows of a head in panels: laid out once or for a tile, they are the same.
#include "models/layers/attention/head_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/helpers.h"

namespace scaling {
namespace {

constexpr std::int64_t kD = 24;

HeadRows rows_of(std::int64_t positions, float first) {
  Mat all(positions, 2 * kD);
  for (std::int64_t i = 0; i < all.size(); ++i) all.data()[i] = first + float(i);
  HeadRows rows;
  rows.load(all, {0, kD, positions, kD});
  return rows;
}

/// Whether panels hold those rows, by the product with a unit vector for each column.
void expect_holds(HeadRows& rows, const Positions& positions, Range which) {
  const float* panels = rows.panels(0, positions, which);
  const std::int64_t n = which.size();
  std::vector<float> unit(std::size_t(kD * kD), 0.0f), out(std::size_t(kD * n));
  for (std::int64_t i = 0; i < kD; ++i) unit[std::size_t(i * kD + i)] = 1;
  tile_product_of_panels(kD, n, kD, {unit.data(), kD, 1}, panels, nullptr, out.data(), n);
  for (std::int64_t i = 0; i < kD; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(out[std::size_t(i * n + j)], rows.all(positions.at(which.begin + j), i))
          << "key " << which.begin + j << ", column " << i;
    }
  }
}

TEST(HeadRows, PanelsHoldTheRowsWhateverTilesTookBefore) {
  HeadRows rows = rows_of(150, 1);
  const Positions all = {.n = 150}, later = {.n = 100, .first = 40};
  const Positions runs = {.n = 60, .first = 3, .run = 20, .step = 45};
  for (const auto& [positions, which] : std::vector<std::pair<Positions, Range>>{
           {all, {64, 128}},    // from where panels begin
           {all, {32, 150}},    // some of which are laid out, to the last row
           {all, {0, 7}},       // less than a panel
           {all, {5, 40}},      // from elsewhere
           {later, {24, 100}},  // position 64 on
           {later, {0, 30}},
           {runs, {10, 45}},
           {all, {0, 150}}}) {
    expect_holds(rows, positions, which);
  }
}

TEST(HeadRows, PanelsAreOfTheRowsLoadedLast) {
  HeadRows rows = rows_of(96, 1);
  const Positions all = {.n = 96};
  expect_holds(rows, all, {32, 96});
  const HeadRows other = rows_of(64, -5000);
  Mat wide(64, 2 * kD);
  wide.setZero();
  wide.rightCols(kD) = other.all;
  rows.load(wide, {0, kD, 64, kD});
  expect_holds(rows, {.n = 64}, {32, 64});
  expect_holds(rows, {.n = 64}, {0, 64});
}

}  // namespace
}  // namespace scaling
