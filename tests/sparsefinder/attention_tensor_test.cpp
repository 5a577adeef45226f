// Statistics over axes against sums by hand, and files that are read back.
#include "models/sparsefinder/attention_tensor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "kernels/check.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

TEST(HeadStatisticsTest, AreSumsOverQueriesAndKeys) {
  constexpr std::int64_t kN = 33, kReach = 4;
  std::vector<GoldGraph> gold;
  for (std::uint64_t head = 0; head < 6; ++head) gold.push_back(drawn_gold(kN, true, head));
  const auto found = head_statistics(gold, 2, kReach);
  ASSERT_EQ(found.size(), gold.size());
  for (std::size_t head = 0; head < gold.size(); ++head) {
    double diagonal = 0, local = 0, first = 0;
    for (std::int64_t i = 0; i < kN; ++i) {
      for (std::size_t at = 0; at < gold[head].keys_of(i).size(); ++at) {
        const std::int64_t key = gold[head].keys_of(i)[at];
        const double p = double(gold[head].p_of(i)[at]);
        diagonal += key == i ? p : 0;
        local += std::abs(i - key) <= kReach ? p : 0;
        first += key == 0 ? p : 0;
      }
    }
    EXPECT_NEAR(found[head].support, double(gold[head].pairs()) / double(kN), 1e-9);
    EXPECT_NEAR(found[head].diagonal, diagonal / double(kN), 1e-6);
    EXPECT_NEAR(found[head].local, local / double(kN), 1e-6);
    EXPECT_NEAR(found[head].first, first / double(kN), 1e-6);
  }
  EXPECT_THROW(head_statistics(gold, 4, kReach), UserError);
}

TEST(AttentionTensor, ComesBackFromItsFile) {
  const std::vector<GoldGraph> gold = {drawn_gold(5, false, 1), drawn_gold(5, false, 2)};
  const std::vector<float> values = attention_tensor(gold);
  const std::string path =
      (std::filesystem::temp_directory_path() / "scaling_attention_tensor_test.npy").string();
  write_npy(path, {1, 2, 5, 5}, values);
  std::vector<std::size_t> shape;
  EXPECT_EQ(read_npy(path, shape), values);
  EXPECT_EQ(shape, (std::vector<std::size_t>{1, 2, 5, 5}));
  std::filesystem::remove(path);
  EXPECT_THROW(read_npy(path, shape), UserError);
  EXPECT_THROW(write_npy("/nowhere/at/all.npy", {1}, {0}), UserError);
}

}  // namespace
}  // namespace scaling
