// Where the C++ library's memory lies changes no bit of training or decoding: a vector is aligned
// to 16 bytes only, and a sum whose order depended on the rest of its address would make of one
// program two. Replaces operator new in this program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "models/layers/catalog.h"
#include "models/training/optimizer.h"
#include "models/transformer/decoder.h"
#include "models/transformer/transformer.h"
#include "tests/layers/layer_harness.h"

namespace {

constexpr std::size_t kBoundary = 64;
/// Bytes that new memory lies above a boundary.
std::size_t placement = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  void* taken = std::malloc(bytes + 2 * kBoundary + placement);
  if (taken == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(taken);
  // malloc's addresses are multiples of 16, which leaves room for the pointer.
  char* given = static_cast<char*>(taken) + (kBoundary - address % kBoundary) + placement;
  std::memcpy(given - sizeof taken, &taken, sizeof taken);
  return given;
}
void operator delete(void* given) noexcept {
  if (given == nullptr) return;
  void* taken = nullptr;
  std::memcpy(&taken, static_cast<char*>(given) - sizeof taken, sizeof taken);
  std::free(taken);
}
void operator delete(void* given, std::size_t) noexcept { operator delete(given); }

namespace scaling {
namespace {

constexpr std::int64_t kSource = 24, kLength = 12;

std::vector<int> random_ids(std::int64_t n, int vocab_size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<int> ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(1 + int(rng.below(vocab_size - 1)));
  return ids;
}

/// Everything that two steps of training leave.
std::vector<float> trained(const ModelConfig& c) {
  Team team(1);
  Transformer model(c);
  model.allocate_for_training(team);
  TrainConfig train;
  train.optimizer = OptimizerKind::adam;
  const auto optimizer = make_optimizer(train, model.parameters());
  const auto kept = model.make_activations();
  Batch batch;
  batch.examples = 2;
  batch.source_length = c.decoder_only() ? 0 : kSource;
  batch.input_length = kLength;
  batch.source = random_ids(batch.examples * batch.source_length, int(c.vocab_size), 1);
  batch.target = random_ids(batch.examples * kLength, int(c.vocab_size), 2);
  shift_right(batch.target, batch.examples, batch.input);
  batch.weights.assign(batch.target.size(), 1.0f);
  std::vector<float> all;
  for (std::uint64_t step = 0; step < 2; ++step) {
    Pass pass{.gemm = find_gemm("eigen"), .training = true, .dropout = 0.1f, .seed = step};
    model.zero_gradients();
    all.push_back(float(model.loss_and_gradients(pass, batch, 0.03f, *kept).loss));
    optimizer->update(std::int64_t(step) + 1, 0.01);
  }
  for (Parameter* p : model.parameters()) {
    all.insert(all.end(), p->values(), p->values() + p->count());
  }
  return all;
}

/// Logits of every position.
std::vector<float> decoded(const ModelConfig& c) {
  Team team(2);
  Transformer model(c);
  model.allocate(team);
  Decoder decoder(model, find_kernel_set("simd"), team, 1, kLength, kSource);
  decoder.begin(random_ids(kSource, int(c.vocab_size), 3));
  std::vector<float> all;
  std::vector<int> next;
  for (const int id : random_ids(kLength, int(c.vocab_size), 4)) {
    decoder.step({id}, next);
    all.insert(all.end(), decoder.logits().begin(), decoder.logits().end());
  }
  return all;
}

class PlacementTest : public testing::TestWithParam<std::string> {};

TEST_P(PlacementTest, ChangesNoBit) {
  set_gemm_threads(1);
  const std::string& component = GetParam();
  for (const std::string& name : implementations_of(component)) {
    SCOPED_TRACE(name);
    ModelConfig c = small_config();
    c.decoder_layers = 1;
    c.max_length = kSource;
    set_field(c, "paragraph_length", 10);
    const auto causal = causal_implementations_of(component);
    const bool decodes = std::find(causal.begin(), causal.end(), name) != causal.end();
    c.encoder_layers = component.starts_with("cross_") || !decodes ? 1 : 0;
    set_field(c, decodes ? component : "encoder_" + component, name);
    const auto with = [&](const auto& run, std::size_t bytes) {
      placement = bytes;
      auto result = run(c);
      placement = 0;
      return result;
    };
    const std::vector<float> model = with(trained, 0), logits = with(decoded, 0);
    for (const std::size_t bytes : {16, 32, 48}) {
      EXPECT_TRUE(with(trained, bytes) == model) << "trained, " << bytes << " bytes further";
      EXPECT_TRUE(with(decoded, bytes) == logits) << "decoded, " << bytes << " bytes further";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, PlacementTest, testing::ValuesIn(component_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace scaling
