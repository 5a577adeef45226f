// Models that are comparable by parameters or by what a token reads.
#include "models/transformer/matched_sizes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"

namespace scaling {
namespace {

ModelConfig model(const Settings& settings = {}) {
  ModelConfig config;
  for (const auto& [name, value] : Settings{{"encoder_layers", "0"},
                                            {"decoder_layers", "2"},
                                            {"d_model", "64"},
                                            {"d_ff", "512"},
                                            {"n_heads", "4"},
                                            {"max_length", "64"},
                                            {"vocab_size", "260"},
                                            {"d_lowrank", "16"},
                                            {"modules", "4"}}) {
    set_field(config, name, value);
  }
  for (const auto& [name, value] : settings) set_field(config, name, value);
  return config;
}

TEST(MatchedSizes, EveryVariantComesWithinHalfAPercentAndDivides) {
  const auto target = double(parameters_of(model()));
  const std::vector<Settings> variants = {
      {{"feed_forward", "sparse"}, {"sparsity", "4"}},
      {{"feed_forward", "sparse"}, {"sparsity", "32"}},
      {{"feed_forward", "sparse"}, {"sparsity", "8"}, {"d_lowrank", "0"}},
      {{"projection", "multiplicative"}},
      {{"feed_forward", "sparse"}, {"sparsity", "8"}, {"projection", "mult_conv"}},
      {{"feed_forward", "moe_block"}, {"experts", "8"}},
      {{"feed_forward", "moe_switch"}, {"experts", "8"}},
      {{"loss", "multiplicative"}, {"loss_modules", "4"}},
      {{"feed_forward", "sparse"}, {"sparsity", "8"}, {"selector", "hash"}}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const MatchedSizes found = match_parameters(model(variants[i]), model());
    const ModelConfig& config = found.model;
    EXPECT_TRUE(found.is_equal()) << i;
    EXPECT_EQ(found.target, target);
    EXPECT_EQ(found.count, double(parameters_of(config)));
    EXPECT_NEAR(found.count, target, kMatchTolerance * target) << i;
    if (config.feed_forward == "sparse") {
      EXPECT_EQ(config.d_ff % config.options<SparseKnobs>().sparsity, 0) << i;
    }
    if (config.feed_forward.rfind("moe", 0) == 0) {
      EXPECT_EQ(config.d_ff % config.options<MoeKnobs>().experts, 0) << i;
    }
  }
}

TEST(MatchedSizes, ATooCoarseStepTakesADivisor) {
  const MatchedSizes found =
      match_parameters(model({{"feed_forward", "sparse"}, {"sparsity", "64"}, {"d_lowrank", "1"}}),
                       model({{"d_ff", "100"}}));
  EXPECT_TRUE(found.is_equal());
  EXPECT_LT(found.model.options<SparseKnobs>().sparsity, 64);
  EXPECT_EQ(64 % found.model.options<SparseKnobs>().sparsity, 0);
}

TEST(MatchedSizes, WhereNothingIsNearEnoughItIsTheNearest) {
  const MatchedSizes found =
      match_parameters(model({{"feed_forward", "sparse"}, {"sparsity", "8"}, {"d_lowrank", "64"}}),
                       model({{"d_ff", "1"}}));
  EXPECT_FALSE(found.is_equal());
  EXPECT_TRUE(std::isfinite(found.difference()));
  EXPECT_FALSE(match_model_reads(model({{"n_heads", "64"}, {"d_ff", "1"}}),
                                 model({{"d_model", "16"}, {"d_ff", "1"}}))
                   .is_equal());
}

TEST(MatchedSizes, ControlsReadAsMuch) {
  const ModelConfig sparse = model({{"feed_forward", "sparse"}, {"sparsity", "8"}});
  const MatchedSizes ff = match_feed_forward_reads(model(), sparse);
  EXPECT_EQ(ff.target, feed_forward_reads(sparse));
  EXPECT_EQ(ff.count, feed_forward_reads(ff.model));
  EXPECT_EQ(ff.model.feed_forward, "dense");
  EXPECT_EQ(ff.model.d_model, 64);
  EXPECT_NEAR(ff.count, ff.target, double(2 * ff.model.d_model + 1) / 2);

  ModelConfig both = sparse;
  both.projection = "mult_conv";
  const MatchedSizes narrow = match_model_reads(model(), both);
  EXPECT_TRUE(narrow.is_equal());
  EXPECT_EQ(narrow.target, model_reads(both));
  EXPECT_EQ(narrow.count, model_reads(narrow.model));
  EXPECT_LT(narrow.count, model_reads(model()));
  EXPECT_LT(narrow.model.d_model, 64);
  EXPECT_EQ(narrow.model.d_model % narrow.model.n_heads, 0);
}

}  // namespace
}  // namespace scaling
