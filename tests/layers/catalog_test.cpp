// The catalog's promises, held for every entry: what it is called and known by, its knobs, what it
// refuses, the small model that stands for it.
#include "models/layers/catalog.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "kernels/check.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/transformer/transformer.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

/// fn(a config of `shape` that has chosen it, component, entry) for every entry.
void for_each_entry(
    const std::string& shape,
    const std::function<void(const ModelConfig&, const std::string&, const EntryInfo&)>& fn) {
  for (const std::string& component : component_names()) {
    for (const EntryInfo& entry : entries_of(component)) {
      SCOPED_TRACE(component + " " + entry.name);
      ModelConfig config = config_of_shape(shape);
      set_field(config, component, entry.name);
      fn(config, component, entry);
    }
  }
}

/// Checkpoints and records carry these names; they are never renamed, and new ones go between.
TEST(Catalog, KnobsKeepTheirNamesAndOrder) {
  const std::vector<std::string> published = {"shape",
                                              "d_model",
                                              "d_ff",
                                              "n_heads",
                                              "vocab_size",
                                              "max_length",
                                              "encoder_layers",
                                              "decoder_layers",
                                              "blocks",
                                              "encoder",
                                              "embedding_scale",
                                              "feed_forward",
                                              "sparsity",
                                              "d_lowrank",
                                              "feed_forward_bias",
                                              "selector",
                                              "selection_noise",
                                              "hard_probability",
                                              "kernel_scaling",
                                              "experts",
                                              "projection",
                                              "modules",
                                              "kernel_size",
                                              "projection_rank",
                                              "cross_projection",
                                              "attention",
                                              "lsh_chunk",
                                              "lsh_rounds",
                                              "lsh_buckets",
                                              "lsh_chunks_before",
                                              "lsh_chunks_after",
                                              "loss",
                                              "loss_modules",
                                              "loss_rank",
                                              "residual_stack",
                                              "attention_layers",
                                              "source",
                                              "encoder_swaps",
                                              "recompute_decisions",
                                              "recurrence",
                                              "recurrence_width",
                                              "weight_type",
                                              "seed"};
  std::vector<std::string> ours;
  for (const std::string& name : field_names()) {
    if (std::find(published.begin(), published.end(), name) != published.end()) {
      ours.push_back(name);
    }
  }
  EXPECT_EQ(ours, published);
}

TEST(Catalog, AKnobThatTwoEntriesHaveIsOne) {
  std::map<std::string, KnobInfo> known;
  int shared = 0;
  for_each_entry("tiny", [&](const ModelConfig&, const std::string&, const EntryInfo& entry) {
    for (const KnobInfo& knob : entry.knobs()) {
      const auto [at, is_new] = known.emplace(knob.name, knob);
      shared += !is_new;
      EXPECT_EQ(at->second.help, knob.help);
      EXPECT_EQ(at->second.initial, knob.initial);
      EXPECT_EQ(at->second.trait.is_size, knob.trait.is_size);
      EXPECT_EQ(at->second.normalised, knob.normalised);
    }
  });
  EXPECT_GT(shared, 5);
  for (const KnobInfo& own : knobs_of<ModelConfig>()) EXPECT_EQ(known.count(own.name), 0u);
}

TEST(Catalog, EveryEntryIsValidInEveryShape) {
  for (const std::string& shape : shape_names()) {
    for_each_entry(shape, [&](const ModelConfig& config, const std::string&, const EntryInfo&) {
      const std::string message = message_of([&] { validate(config); });
      // Widths of 1600 and the like are no multiple of 16 modules; then both numbers are named.
      if (message == "no error") return;
      EXPECT_NE(message.find("is not divisible by"), std::string::npos) << shape << message;
    });
  }
}

TEST(Catalog, BadSizesAreNamed) {
  for_each_entry("800m", [](const ModelConfig& config, const std::string&, const EntryInfo& entry) {
    for (const KnobInfo& knob : entry.knobs()) {
      if (!knob.trait.is_size) continue;
      ModelConfig bad = config;
      set_field(bad, knob.name, -3);
      const std::string message = message_of([&] { validate(bad); });
      EXPECT_NE(message.find(knob.name + " -3"), std::string::npos) << message;
    }
    if (const char* knob = entry.traits.d_ff_multiple_of) {
      ModelConfig bad = config;
      set_field(bad, knob, 63);
      const std::string message = message_of([&] { validate(bad); });
      for (const char* part : {"d_ff 4096", knob, "63"}) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
      }
    }
  });
}

/// Small, valid, and of the same components.
TEST(Catalog, EveryEntryShrinks) {
  for (const char* shape : {"800m", "17b", "gpt2-xl"}) {
    for_each_entry(
        shape, [](const ModelConfig& config, const std::string& component, const EntryInfo& entry) {
          const ModelConfig small = shrunk(config);
          EXPECT_EQ(message_of([&] { validate(small); }), "no error");
          EXPECT_EQ(get_field(small, component), entry.name);
          EXPECT_LT(Transformer(small).parameter_count(), 2'000'000);
        });
  }
}

TEST(Catalog, OneEntryOfAComponentIsThePlainOne) {
  for (const std::string& component : component_names()) {
    int dense = 0;
    for (const EntryInfo& entry : entries_of(component)) dense += entry.traits.is_dense;
    EXPECT_EQ(dense, component == "recurrence" ? 0 : 1) << component;
    EXPECT_EQ(get_field(ModelConfig(), component), implementations_of(component).front());
  }
  // What an encoder projects by, and how cross-attention attends, whatever self-attention does.
  ModelConfig config = config_of_shape("800m");
  set_field(config, "projection", "mult_conv");
  set_field(config, "attention", "lsh");
  const auto weights = [](const Projection& p) {
    return total(p.step_cost(1, WeightType::f32)).weights;
  };
  EXPECT_EQ(weights(*make_projection(config, {.in_encoder = true})), 4198400);
  EXPECT_EQ(weights(*make_projection(config, {.in_encoder = false})), 169152);
  EXPECT_EQ(make_cross_attention(config)->work(3, 5).pairs, 16 * 3 * 5);
}

TEST(Catalog, SoftSelectionsAreLearned) {
  std::set<std::string> soft;
  for_each_entry("tiny",
                 [&](const ModelConfig& config, const std::string&, const EntryInfo& entry) {
                   if (entry.selects_softly(config)) soft.insert(entry.name);
                 });
  EXPECT_EQ(soft, (std::set<std::string>{"moe_block", "sparse"}));
  ModelConfig hashed = config_of_shape("tiny");
  set_field(hashed, "feed_forward", "sparse");
  set_field(hashed, "selector", "hash");
  EXPECT_FALSE(chosen_entry(hashed, "feed_forward").selects_softly(hashed));
}

TEST(Settings, KnobsOfOthersAreIrrelevant) {
  ModelConfig config;
  EXPECT_TRUE(is_relevant(config, "d_ff"));
  EXPECT_FALSE(is_relevant(config, "sparsity"));
  EXPECT_FALSE(is_relevant(config, "modules"));
  const std::string message = message_of([&] { require_relevant(config, "modules"); });
  for (const char* part : {"'modules'", "projection=mult_conv", "cross_projection=mult_conv"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  set_field(config, "cross_projection", "mult_conv");
  EXPECT_TRUE(is_relevant(config, "modules"));
  EXPECT_EQ(message_of([&] { require_relevant(config, "modules"); }), "no error");
  EXPECT_NE(message_of([&] { require_relevant(config, "nonsense"); }).find("d_model"),
            std::string::npos);
}

TEST(Settings, ComponentsReadTheirOwn) {
  ModelConfig config = config_of_shape("17b");
  EXPECT_EQ(config.options<SparseKnobs>().sparsity, 256);
  set_field(config, "sparsity", "064");
  EXPECT_EQ(get_field(config, "sparsity"), "64");
  EXPECT_EQ(config.options<SparseKnobs>().sparsity, 64);
  EXPECT_EQ(config.options<SparseKnobs>().rank(config), 32);
  set_field(config, "d_lowrank", 0);
  EXPECT_EQ(config.options<SparseKnobs>().rank(config), 40960 / 64);
}

TEST(Settings, AModelBehindKnobs) {
  ModelConfig config;
  Knobs knobs;
  add_knobs(knobs, config);
  EXPECT_TRUE(knobs.changed().empty());
  knobs.set("shape", "tiny");
  knobs.set("blocks", "auto");
  knobs.set("selector", "hash");
  EXPECT_EQ(config.d_model, 32);
  EXPECT_EQ(knobs.get("blocks"), "auto");
  EXPECT_EQ(knobs.get("modules"), "4");
  EXPECT_EQ(get_field(config, "selector"), "hash");
  EXPECT_EQ(knobs.info().size(), all_knobs().size());
}

}  // namespace
}  // namespace scaling
