// What the committed configs promise.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "experiments/decode/decode_row.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/layers/parts/module_knobs.h"
#include "models/shapes.h"
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

TEST(Configs, WidthSweepReadsFromMemory) {
  for (const DecodeRow& row : width_sweep()) {
    const Transformer model(row.model);
    const Phase token = total(model.token_cost(row.tokens(), 8, row.decode.source_length));
    EXPECT_GE(token.bytes, 256e6) << row.name;
    EXPECT_TRUE(row.decode.cold) << row.name << ": a cache may hold as much";
  }
}

/// Every shape of the table that is not the paper's, as it was published; weights by the formula of
/// a block: four matrices of an attention, two more of a cross-attention, two of a feed-forward.
TEST(Configs, PublishedModelsAreWhole) {
  const std::string path = std::string(SOURCE_DIR) + "/experiments/configs/decode/note_shapes.cfg";
  std::set<std::string> found;
  for (const DecodeRow& row : decode_rows(read_row_file(path, decode_row_knobs(), {}))) {
    const ModelConfig& c = row.model;
    found.insert(c.shape);
    EXPECT_EQ(row.against, row.name);
    EXPECT_TRUE(c.decoder_only() || !c.encoder) << row.name << " would run its encoder";
    if (c.decoder_only()) {
      EXPECT_EQ(capacity_of(row), c.max_length) << row.name;
    }
    const double d = double(c.d_model);
    const double of_block = (c.has_cross_attention() ? 6 : 4) * d * d + 2 * d * double(c.d_ff);
    const double weights = double(c.decoder_layers) * of_block + double(c.vocab_size) * d;
    const Transformer model(c);
    const Phase token = total(model.token_cost(1, 8, row.decode.source_length));
    EXPECT_NEAR(token.weights / weights, 1, 0.02) << row.name;
  }
  for (const Shape& shape : shapes()) {
    const std::string name = shape.name;
    if (name == "tiny" || name == "800m" || name == "17b") continue;
    EXPECT_TRUE(found.count(name)) << name << " is not in " << path;
  }
}

}  // namespace
}  // namespace scaling
