// Rows of a head in panels: laid out once or for a tile, they are the same.
#include "models/layers/attention/head_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/helpers.h"

namespace scaling {
namespace {

constexpr std::int64_t kD = 24;

/// Rows of two heads, all different.
Mat two_heads(std::int64_t positions, float first) {
  Mat all(positions, 2 * kD);
  for (std::int64_t i = 0; i < all.size(); ++i) all.data()[i] = first + float(i);
  return all;
}

HeadPart second_head(const Mat& all) { return {0, kD, all.rows(), kD}; }

/// Whether panels hold those rows of the second head, by the product with a unit vector for each
/// column.
void expect_holds(HeadRows& rows, const Mat& all, const Positions& positions, Range which) {
  const float* panels = rows.panels(0, positions, which);
  const std::int64_t n = which.size();
  std::vector<float> unit(std::size_t(kD * kD), 0.0f), out(std::size_t(kD * n));
  for (std::int64_t i = 0; i < kD; ++i) unit[std::size_t(i * kD + i)] = 1;
  tile_product_of_panels(kD, n, kD, {unit.data(), kD, 1}, panels, nullptr, out.data(), n);
  for (std::int64_t i = 0; i < kD; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(out[std::size_t(i * n + j)], all(positions.at(which.begin + j), kD + i))
          << "key " << which.begin + j << ", column " << i;
    }
  }
}

TEST(HeadRows, PanelsHoldTheRowsWhateverTilesTookBefore) {
  const Mat all = two_heads(150, 1);
  const Positions every = {.n = 150}, later = {.n = 100, .first = 40};
  const Positions runs = {.n = 60, .first = 3, .run = 20, .step = 45};
  for (const std::int64_t held : {150, 96}) {
    HeadRows rows(384);
    rows.load(all, second_head(all));
    rows.hold(held);
    for (const auto& [positions, which] : std::vector<std::pair<Positions, Range>>{
             {every, {64, 128}},  // from where panels begin
             {every, {96, 150}},  // some of which are laid out, to the last row
             {every, {0, 7}},     // less than a panel
             {every, {5, 40}},    // from elsewhere
             {later, {24, 80}},   // position 64 on
             {later, {0, 30}},
             {runs, {10, 45}},
             {every, {128, 150}}}) {
      expect_holds(rows, all, positions, which);
    }
  }
}

TEST(HeadRows, PanelsAreOfTheRowsLoadedLast) {
  const Mat all = two_heads(96, 1), others = two_heads(64, -5000);
  HeadRows rows(384);
  rows.load(all, second_head(all));
  expect_holds(rows, all, {.n = 96}, {32, 96});
  rows.load(others, second_head(others));
  expect_holds(rows, others, {.n = 64}, {32, 64});
  expect_holds(rows, others, {.n = 64}, {0, 64});
}

TEST(HeadRows, FewHeldRowsAreTheSameRows) {
  const Mat all = two_heads(300, 1);
  HeadRows rows(384);
  rows.load(all, second_head(all));
  rows.hold(96);
  const Positions every = {.n = 300}, runs = {.n = 90, .first = 3, .run = 30, .step = 100};
  for (const auto& [positions, which] : std::vector<std::pair<Positions, Range>>{
           {every, {250, 300}}, {every, {3, 50}}, {runs, {20, 70}}, {every, {40, 64}}}) {
    const float* taken = rows.take(positions, which);
    for (std::int64_t i = 0; i < which.size(); ++i) {
      const std::int64_t position = positions.at(which.begin + i);
      ASSERT_EQ(taken[i * kD + 5], all(position, kD + 5)) << "held few, position " << position;
    }
  }
  EXPECT_EQ(*rows.row(299), all(299, kD));
  EXPECT_EQ(rows.all(), all.rightCols(kD)) << "all of them, after few";
  EXPECT_EQ(*rows.row(299), all(299, kD));
}

/// What adding ones to these rows, some of them twice, makes of a matrix of sevens.
Mat sums_of_rows(std::int64_t held) {
  Mat sums = Mat::Constant(200, 2 * kD, 7);
  HeadRows rows(384);
  rows.sum_into(sums, second_head(sums));
  rows.hold(held);
  std::vector<float> one(64, 1);
  const Mat ones = Mat::Ones(1, kD);
  const Positions every = {.n = 200}, runs = {.n = 20, .first = 10, .run = 10, .step = 150};
  for (const auto& [positions, which] : std::vector<std::pair<Positions, Range>>{
           {every, {0, 40}}, {every, {150, 200}}, {every, {30, 50}}, {runs, {5, 20}}}) {
    rows.add_product({one.data(), 1, 1}, nullptr, ones.data(), 1, positions, which);
  }
  *rows.row_to_change(31) *= 10;
  rows.finish({0, 64});
  EXPECT_EQ(sums(31, kD), 20) << "finished, whatever follows";
  rows.finish();
  return sums;
}

TEST(HeadRows, SumsAreWholeHoweverFewRowsAreHeld) {
  const Mat sums = sums_of_rows(200);
  EXPECT_EQ(sums_of_rows(96), sums);
  EXPECT_TRUE((sums.leftCols(kD).array() == 7).all()) << "another head's";
  for (std::int64_t i = 0; i < 200; ++i) {
    const bool first = i < 40, second = i >= 150, third = i >= 30 && i < 50;
    const bool runs = (i >= 15 && i < 20) || (i >= 160 && i < 170);
    const float expected = float(first + second + third + runs);
    EXPECT_EQ(sums(i, kD + 1), expected) << "position " << i << ": 0 where nothing was added";
  }
}

}  // namespace
}  // namespace scaling
