// Hard against soft selections of one model.
#include "models/training/selections.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

SelectionNumbers diagnosed(const Settings& settings) {
  ModelConfig config = config_of_shape("tiny");
  config.d_ff = 64;
  config.vocab_size = 260;
  config.encoder = true;
  config.encoder_layers = 0;
  for (const auto& [name, value] : settings) set_field(config, name, value);
  Transformer model(config);
  {
    Team team(1);
    model.allocate_for_training(team);
  }
  const auto weights = [&model] {
    std::vector<float> all;
    for (Parameter* p : model.parameters()) {
      all.insert(all.end(), p->values(), p->values() + p->count());
    }
    return all;
  };
  const std::vector<float> before = weights();
  TrainConfig train;
  train.batch = 4;
  train.length = 32;
  train.evaluate_batches = 2;
  const Folder folder;
  const auto task = make_task(train, config.vocab_size, folder.path());
  const SelectionNumbers found = diagnose_selections(model, *task, find_gemm("eigen"), 1);
  EXPECT_EQ(weights(), before);
  return found;
}

TEST(Selections, LearnedOnesHaveAGapAndTheEntropyOfABlock) {
  const SelectionNumbers sparse = diagnosed({{"feed_forward", "sparse"}, {"sparsity", "8"}});
  EXPECT_TRUE(std::isfinite(sparse.hard_soft_gap));
  EXPECT_NE(sparse.hard_soft_gap, 0);
  EXPECT_GT(sparse.entropy, 0);
  EXPECT_LE(sparse.entropy, std::log(8.0) + 1e-6);
}

TEST(Selections, OthersHaveNone) {
  for (const Settings& settings :
       {Settings{},
        Settings{{"feed_forward", "sparse"}, {"sparsity", "8"}, {"selector", "hash"}}}) {
    const SelectionNumbers found = diagnosed(settings);
    EXPECT_TRUE(std::isnan(found.hard_soft_gap));
    EXPECT_TRUE(std::isnan(found.entropy));
  }
}

}  // namespace
}  // namespace scaling
