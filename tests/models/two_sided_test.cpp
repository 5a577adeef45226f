// What a batch without a causal mask lets a decoder-only model see.
#include <gtest/gtest.h>

#include "kernels/check.h"
#include "kernels/gemm.h"
#include "tests/models/model_harness.h"

namespace scaling {
namespace {

/// Loss of the first position alone, before and after the last id that is read has changed.
bool first_sees_last(const ModelConfig& config, bool causal) {
  set_gemm_threads(1);
  Transformer model(config);
  Team team(1);
  model.allocate_for_training(team);
  Batch batch = batch_of({{{}, draw_ids(config, 8, 1)}});
  batch.causal = causal;
  batch.weights.assign(batch.target.size(), 0.0f);
  batch.weights[0] = 1;
  const double before = evaluated(model, batch).loss;
  batch.input.back() = batch.input.back() == 5 ? 6 : 5;
  return evaluated(model, batch).loss != before;
}

TEST(TwoSided, EveryPositionSeesAllUnlessCausal) {
  for (const char* attention : {"full", "lsh", "performer", "routing"}) {
    ModelConfig config = config_of_shape("tiny");
    config.encoder_layers = 0;
    config.attention = attention;
    set_field(config, "lsh_chunk", 4);
    set_field(config, "lsh_chunks_after", 1);
    set_field(config, "routing_clusters", 1);  // in several, later positions crowd others out
    EXPECT_FALSE(first_sees_last(config, true)) << attention;
    EXPECT_TRUE(first_sees_last(config, false)) << attention;
  }
}

/// What cannot be causal says so in the first batch that is.
TEST(TwoSided, WhatIsNeverCausalTakesNoOtherBatch) {
  ModelConfig config = config_of_shape("tiny");
  config.encoder_layers = 0;
  config.attention = "linformer";
  EXPECT_TRUE(first_sees_last(config, false));
  EXPECT_THROW(first_sees_last(config, true), UserError);
}

}  // namespace
}  // namespace scaling
