// A training step takes no memory of a matrix's size once the first has run: allocations are
// counted where the C library makes them.
#include <gtest/gtest.h>

#include "kernels/random.h"
#include "models/layers/catalog.h"
#include "models/training/optimizer.h"
#include "models/transformer/transformer.h"
#include "tests/gemms.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/allocation_counter.h"

#ifdef SCALING_COUNTS_ALLOCATIONS

namespace scaling {
namespace {

Batch random_batch(const ModelConfig& c, std::uint64_t seed) {
  Batch batch;
  batch.examples = 3;
  batch.source_length = c.decoder_only() ? 0 : 9;
  batch.input_length = 11;
  Rng ids(seed);
  const auto draw = [&](std::int64_t n) {
    std::vector<int> drawn;
    for (std::int64_t i = 0; i < n; ++i) {
      drawn.push_back(1 + int(ids.below(std::uint32_t(c.vocab_size - 1))));
    }
    return drawn;
  };
  batch.source = draw(batch.examples * batch.source_length);
  batch.target = draw(batch.examples * batch.input_length);
  shift_right(batch.target, batch.examples, batch.input);
  batch.weights.assign(batch.target.size(), 1.0f);
  return batch;
}

int large_allocations_of_later_steps(const ModelConfig& config, OptimizerKind optimizer_kind) {
  Team team(1);
  Transformer model(config);
  model.allocate_for_training(team);
  TrainConfig train;
  train.optimizer = optimizer_kind;
  const auto optimizer = make_optimizer(train, model.parameters());
  const auto kept = model.make_activations();
  const Gemm& gemm = plain_gemm();
  const Batch batches[] = {random_batch(config, 1), random_batch(config, 2),
                           random_batch(config, 3)};
  large_allocations = 0;
  for (std::uint64_t step = 0; step < 3; ++step) {
    is_counting = step > 0;
    Pass pass{.gemm = gemm, .training = true, .dropout = 0.1f, .seed = step};
    model.zero_gradients();
    model.loss_and_gradients(pass, batches[step], 0.03f, *kept);
    optimizer->update(std::int64_t(step) + 1, 0.01);
  }
  is_counting = false;
  return large_allocations;
}

TEST(Allocation, TheCounterCounts) {
  large_allocations = 0;
  is_counting = true;
  Mat taken(64, 64);
  taken.setZero();
  is_counting = false;
  EXPECT_EQ(large_allocations, 1);
}

TEST(Allocation, StepsAfterTheFirstTakeNothing) {
  set_gemm_threads(1);
  for (const char* component : {"feed_forward", "projection", "loss"}) {
    for (const std::string& name : implementations_of(component)) {
      for (const std::int64_t encoder_layers : {0, 1}) {
        ModelConfig c = small_config();
        c.encoder_layers = encoder_layers;
        c.decoder_layers = 2;
        set_field(c, component, name);
        EXPECT_EQ(large_allocations_of_later_steps(c, OptimizerKind::adafactor), 0)
            << component << ":" << name;
      }
    }
  }
  for (const char* component : {"cross_projection", "cross_attention"}) {
    for (const std::string& name : implementations_of(component)) {
      ModelConfig c = small_config();
      c.encoder_layers = c.decoder_layers = 1;
      set_field(c, component, name);
      EXPECT_EQ(large_allocations_of_later_steps(c, OptimizerKind::adam), 0)
          << component << ":" << name;
    }
  }
}

}  // namespace
}  // namespace scaling
#endif
