// What the committed configs promise.
#include <gtest/gtest.h>

#include <map>

#include "experiments/decode/decode_row.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/layers/parts/module_knobs.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

std::vector<DecodeRow> width_sweep() {
  const std::string path = std::string(SOURCE_DIR) + "/experiments/configs/decode/width_sweep.cfg";
  return decode_rows(read_row_file(path, decode_row_knobs(), {}));
}

TEST(Configs, WidthSweepHasItsWidthsModulesAndRanks) {
  const std::map<std::int64_t, std::int64_t> modules = {{512, 16},  {768, 24},  {1024, 32},
                                                        {1600, 40}, {2048, 32}, {4096, 64},
                                                        {9216, 96}, {12288, 96}};
  std::map<std::string, int> rows;
  for (const DecodeRow& row : width_sweep()) {
    const ModelConfig& c = row.model;
    ASSERT_EQ(modules.count(c.d_model), 1u) << row.name;
    ++rows[c.feed_forward];
    EXPECT_EQ(c.d_ff, 4 * c.d_model) << row.name;
    if (c.feed_forward != "sparse") continue;
    const std::int64_t n = modules.at(c.d_model);
    EXPECT_EQ(c.options<ModuleKnobs>().modules, n) << row.name;
    EXPECT_EQ(c.options<SparseKnobs>().sparsity, n) << row.name;
    EXPECT_EQ(c.options<SparseKnobs>().d_lowrank, (c.d_model / n + 7) / 8 * 8) << row.name;
    EXPECT_EQ(c.projection, "mult_conv") << row.name;
    EXPECT_EQ(c.cross_projection, "mult_conv") << row.name;
  }
  EXPECT_EQ(rows["dense"], 8);
  EXPECT_EQ(rows["sparse"], 8);
}

TEST(Configs, WidthSweepTouchesMoreThanCachesHold) {
  for (const DecodeRow& row : width_sweep()) {
    const Transformer model(row.model);
    const Phase token = total(model.token_cost(row.tokens(), 8, row.decode.source_length));
    EXPECT_GE(token.bytes, 256e6) << row.name;
  }
}

}  // namespace
}  // namespace scaling
