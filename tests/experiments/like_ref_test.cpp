// What will be timed is compared with ref before: right kernel sets pass in every config of the
// project, wrong ones are named.
#include "experiments/instruments/like_ref.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiments/decode/decode_row.h"
#include "models/layers/catalog.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

ModelConfig sparse_config() {
  ModelConfig c = config_of_shape("800m");
  c.feed_forward = "sparse";
  c.projection = c.cross_projection = "mult_conv";
  c.loss = "multiplicative";
  return c;
}

std::string refusal_of(const ModelConfig& config, const KernelSet& kernels, int tokens,
                       int threads) {
  Team team(threads);
  return message_of([&] { require_like_ref("row 'some'", config, kernels, tokens, team); });
}

TEST(LikeRef, EveryRowOfTheProjectsConfigsAgrees) {
  fs::current_path(SOURCE_DIR);  // from where configs name traces
  std::set<Settings> seen;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SOURCE_DIR) / "experiments/configs/decode")) {
    if (entry.path().extension() != ".cfg") continue;
    const RowFile file = read_row_file(entry.path().string(), decode_row_knobs(), {});
    for (const DecodeRow& row : decode_rows(file)) {
      DecodeRow small = row;
      small.model = shrunk(row.model);
      small.decode.context = small.decode.source_length = 0;
      small.decode.replay.clear();
      const std::string& kernels = row.decode.kernels;
      const auto& sets = kernel_sets();
      const auto is_here = [&kernels](const KernelSet* set) { return set->name == kernels; };
      if (std::none_of(sets.begin(), sets.end(), is_here)) continue;
      if (!seen.insert(settings_of(small)).second) continue;
      EXPECT_EQ(refusal_of(row.model, find_kernel_set(kernels), row.tokens(), 1), "no error")
          << entry.path() << " " << row.name;
    }
  }
  EXPECT_GE(seen.size(), 30u);
}

TEST(LikeRef, EverySetAgreesWithEveryImplementation) {
  for (const KernelSet* set : kernel_sets()) {
    for (const std::string& component : component_names()) {
      for (const std::string& name : causal_implementations_of(component)) {
        for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
          ModelConfig c = config_of_shape("800m");
          set_field(c, component, name);
          c.weight_type = type;
          EXPECT_EQ(refusal_of(c, *set, 1, 1), "no error")
              << set->name << " " << component << " " << name;
        }
      }
    }
    EXPECT_EQ(refusal_of(sparse_config(), *set, 3, 2), "no error") << set->name << " shared";
  }
}

/// Kernel sets with one mistake each.
std::vector<std::pair<std::string, KernelSet>> wrong_sets() {
  std::vector<std::pair<std::string, KernelSet>> sets;
  const auto add = [&sets](const std::string& name, const auto& spoil) {
    KernelSet set = simd_kernels();
    set.name = name;
    spoil(set);
    sets.emplace_back(name, set);
  };
  add("no_bias", [](KernelSet& set) {
    set.dense = [](const WeightView& w, const float*, const float* x, int tokens, float* y, Range o,
                   bool relu) { simd_kernels().dense(w, nullptr, x, tokens, y, o, relu); };
  });
  add("short_of_one_input", [](KernelSet& set) {
    set.multiplicative = [](const WeightView& d, const WeightView& e, const float* x, int tokens,
                            float* y, Range inputs, Range columns, Ahead* ahead) {
      if (inputs.end > 0) inputs.end -= 1;
      simd_kernels().multiplicative(d, e, x, tokens, y, inputs, columns, ahead);
    };
  });
  add("wrong_choice", [](KernelSet& set) {
    set.controller = [](const WeightView& w, const float*, const float* hidden, int tokens,
                        std::int64_t block, float* logits, std::int32_t* selected, Range blocks) {
      const std::vector<float> none(std::size_t(w.cols), 0.0f);
      simd_kernels().controller(w, none.data(), hidden, tokens, block, logits, selected, blocks);
    };
  });
  add("softer_attention", [](KernelSet& set) {
    set.attend = [](const float* q, const HeadMemory& memory, float* scores, float* out) {
      std::vector<float> half(q, q + memory.d_head);
      for (float& v : half) v *= 0.5f;
      simd_kernels().attend(half.data(), memory, scores, out);
    };
  });
  add("not_a_number", [](KernelSet& set) {
    set.layer_norm = [](const float* x, const float* scale, const float* bias, int tokens,
                        std::int64_t d, float* y) {
      simd_kernels().layer_norm(x, scale, bias, tokens, d, y);
      y[0] = std::nanf("");
    };
  });
  return sets;
}

TEST(LikeRef, AWrongSetIsNamedInOneSentence) {
  for (const auto& [name, set] : wrong_sets()) {
    for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
      ModelConfig c = sparse_config();
      c.embedding_scale = 1000;  // as in the tables; blocks must show all the same
      c.weight_type = type;
      const std::string message = refusal_of(c, set, 2, 1);
      expect_mentions(message,
                      {"row 'some'", "'" + name + "'", name_of(type), "ref", "nothing was timed"});
      EXPECT_EQ(message.find('\n'), std::string::npos);
    }
  }
}

/// The wide tolerance of sets that round activations is no free pass.
TEST(LikeRef, AWrongSetThatRoundsIsFoundToo) {
  ModelConfig c = sparse_config();
  c.weight_type = WeightType::bf16;
  for (auto [name, set] : wrong_sets()) {
    set.rounds_activations = true;
    expect_mentions(refusal_of(c, set, 1, 1), {"'" + name + "'"});
  }
  EXPECT_LT(tolerance_of(simd_kernels(), WeightType::bf16).logits, 1e-3);
}

}  // namespace
}  // namespace scaling
