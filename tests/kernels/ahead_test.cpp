// Lists of what is read soon: order, ends of stretches, room.
#include "kernels/ahead.h"

#include <gtest/gtest.h>

#include <vector>

namespace scaling {
namespace {

TEST(Ahead, GivesStretchesInTheirOrder) {
  const std::vector<char> one(300), other(100);
  Ahead ahead;
  EXPECT_TRUE(ahead.empty());
  EXPECT_EQ(ahead.take(64), nullptr);
  ahead.add(one.data(), 300);
  ahead.add(other.data(), 0);  // nothing
  ahead.add(other.data(), 100);
  EXPECT_EQ(ahead.take(128), one.data());
  EXPECT_EQ(ahead.take(128), one.data() + 128);
  // The rest of a stretch is all that is taken, however much was asked for.
  EXPECT_EQ(ahead.take(128), one.data() + 256);
  EXPECT_EQ(ahead.take(128), other.data());
  EXPECT_TRUE(ahead.empty());
}

TEST(Ahead, HoldsNoMoreThanACacheDoes) {
  const std::vector<char> memory(1 << 20);
  Ahead ahead;
  ahead.add(memory.data(), std::int64_t(memory.size()));
  ahead.add(memory.data(), 64);
  std::int64_t taken = 0;
  while (ahead.take(4096)) taken += 4096;
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, std::int64_t(memory.size()));
}

TEST(Ahead, MorePiecesThanThereArePlacesAreLeftOut) {
  const std::vector<char> memory(64);
  Ahead ahead;
  for (int i = 0; i < 1000; ++i) ahead.add(memory.data(), 1);
  int pieces = 0;
  while (ahead.take(64)) ++pieces;
  EXPECT_GT(pieces, 8);
  EXPECT_LT(pieces, 1000);
}

TEST(Ahead, KnowsWhereAMatrixLies) {
  const std::vector<float> values(std::size_t(3 * 5 * kPanel));
  const WeightView rows = {values.data(), WeightType::f32, Layout::rows, 5, 3 * kPanel};
  Ahead ahead;
  ahead.add_rows(rows, 2, 4);
  EXPECT_EQ(ahead.take(1 << 20), reinterpret_cast<const char*>(values.data() + 2 * rows.cols));
  EXPECT_TRUE(ahead.empty());
  // Rows 1 and 2 of the second and the third panel.
  const WeightView panels = {values.data(), WeightType::f32, Layout::panels, 5, 3 * kPanel};
  ahead = {};
  ahead.add_panels(panels, 1, 3, kPanel, 3 * kPanel);
  for (const std::int64_t panel : {1, 2}) {
    const float* const start = values.data() + (panel * 5 + 1) * kPanel;
    EXPECT_EQ(ahead.take(kPanel * 4), reinterpret_cast<const char*>(start));
    EXPECT_EQ(ahead.take(kPanel * 4), reinterpret_cast<const char*>(start + kPanel));
  }
  EXPECT_TRUE(ahead.empty());
}

}  // namespace
}  // namespace scaling
