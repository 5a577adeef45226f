// Windows with gaps and global positions, against their definition.
#include "models/layers/attention/full.h"
#include "models/layers/attention/patterns/longformer.h"
#include "tests/layers/pattern_checks.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

struct Sizes {
  std::int64_t width, dilation, global;
  std::string text() const {
    return "width " + std::to_string(width) + " dilation " + std::to_string(dilation) + " global " +
           std::to_string(global);
  }
};

ModelConfig config(const Sizes& sizes, const std::string& normaliser = "softmax") {
  return config_of_heads({{"window_width", std::to_string(sizes.width)},
                          {"longformer_dilation", std::to_string(sizes.dilation)},
                          {"longformer_global", std::to_string(sizes.global)},
                          {"normaliser", normaliser}});
}

Longformer pattern(const Sizes& sizes) { return {sizes.width, sizes.dilation, sizes.global}; }

Rule rule(const Sizes& sizes) {
  return [sizes](const PatternCall&, std::int64_t t, std::int64_t j) {
    const std::int64_t apart = std::abs(t - j);
    return t < sizes.global || j < sizes.global ||
           (apart % sizes.dilation == 0 && apart / sizes.dilation <= (sizes.width - 1) / 2);
  };
}

const std::vector<Sizes> kSizes = {{7, 1, 0}, {7, 1, 1}, {31, 1, 3}, {1, 1, 2},
                                   {5, 3, 0}, {5, 3, 2}, {9, 2, 70}, {201, 1, 1}};

TEST(LongformerAttention, IsTheDefinition) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    for (const std::int64_t length : {6, 70, 150}) {
      for (const bool causal : {false, true}) {
        expect_is_rule(LongformerAttention(config(sizes)), length, causal, rule(sizes));
        if (length > 70) continue;
        expect_is_rule(LongformerAttention(config(sizes, "entmax15")), length, causal, rule(sizes),
                       1.5);
      }
    }
  }
}

TEST(LongformerAttention, PairsAreThoseOfTheDefinition) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    expect_pairs(pattern(sizes), rule(sizes));
  }
}

TEST(LongformerAttention, StepIsForward) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes.text());
    for (const std::int64_t length : {1, 23, 80}) {
      expect_decodes(LongformerAttention(config(sizes)), pattern(sizes), rule(sizes), length);
    }
  }
  const AttentionInput in(50, 50, 24);
  const LongformerAttention layer(config({5, 3, 2}, "sparsemax"));
  expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true), "sparsemax");
}

/// A ring of half the window and itself for each residue, and the global positions.
TEST(LongformerAttention, DecodesHoldWhatTheyMayRead) {
  EXPECT_EQ(LongformerAttention(config({31, 1, 3})).cache_bytes(2, 1000),
            KeyValueCache::bytes(2, 3, 16 + 3, 8));
  EXPECT_EQ(pattern({31, 4, 3}).slots(1000), 4 * 16 + 3);
  EXPECT_EQ(pattern({31, 4, 3}).slots(2), 2);
  EXPECT_EQ(total(LongformerAttention(config({513, 1, 0})).step_cost(1, 4096)).bytes,
            3.0 * 2 * 257 * 8 * 4);
}

TEST(LongformerAttention, NothingComesFromLaterPositions) {
  for (const Sizes& sizes : kSizes) expect_no_leak(LongformerAttention(config(sizes)), 90);
}

TEST(LongformerAttention, MemoryIsLinearInLength) {
  expect_linear_memory(LongformerAttention(config({41, 1, 2}, "entmax15")));
  expect_linear_memory(LongformerAttention(config({41, 3, 2})));
}

TEST(LongformerAttention, DropoutIsRepeatedInBackward) {
  expect_dropout_is_repeated(LongformerAttention(config({9, 1, 2})), 150);
  expect_dropout_is_repeated(LongformerAttention(config({9, 3, 2})), 150);
}

TEST(LongformerAttention, InTheLimitItIsFullOrWindow) {
  for (const bool causal : {false, true}) {
    const AttentionInput in(150, 150, 24);
    const AttentionMask mask{.causal = causal};
    const auto run = [&](const SelfAttention& layer) {
      return run_attention(layer, training_pass(), in, mask);
    };
    const AttentionResult full = run(FullAttention(config_of_heads({})));
    expect_same(run(LongformerAttention(config({299, 1, 0}))), full);
    expect_same(run(LongformerAttention(config({299, 1, 5}))), full);
    expect_same(run(LongformerAttention(config({1, 1, 150}))), full);
    const Sizes without_globals = {31, 1, 0};
    const AttentionResult ours = run(LongformerAttention(config(without_globals)));
    const AttentionResult window = run(WindowAttention(config(without_globals)));
    EXPECT_TRUE(ours.o == window.o && ours.dq == window.dq && ours.dk == window.dk &&
                ours.dv == window.dv);
  }
}

TEST(LongformerAttention, BadSizesAreRefused) {
  const auto text = [](const Sizes& sizes) { return refusal<LongformerAttention>(config(sizes)); };
  EXPECT_NE(text({8, 1, 1}).find("window_width 8"), std::string::npos);
  EXPECT_NE(text({7, 0, 1}).find("longformer_dilation 0"), std::string::npos);
  EXPECT_NE(text({7, 1, -1}).find("longformer_global -1"), std::string::npos);
  EXPECT_EQ(text({7, 2, 0}), "");
}

// -- projections of global positions of their own
// --------------------------------------------------

ModelConfig own_config(const Sizes& sizes, const std::string& normaliser = "softmax") {
  ModelConfig c = config(sizes, normaliser);
  set_field(c, "longformer_projections", "own");
  return c;
}

TrainedLayer<LongformerAttention> own_layer(const ModelConfig& c) {
  return TrainedLayer<LongformerAttention>(std::make_unique<LongformerAttention>(c));
}

/// x times a global projection, "q", "k" or "v".
Mat projected(const TrainedLayer<LongformerAttention>& held, const std::string& part,
              const Mat& x) {
  Mat y = x * held.parameter("global_" + part).matrix().transpose();
  y.rowwise() += held.parameter("global_" + part + "_bias").matrix().row(0);
  return y;
}

/// Rows of global positions are exact attention among the global projections, all other rows what
/// they are without; and what the ones are taught does not reach the others.
TEST(LongformerAttention, OwnProjectionsAreOfGlobalRowsAlone) {
  const std::int64_t n = 70;
  const Mat x = random_mat(n, 24, 9);
  const AttentionInput in(n, n, 24);
  std::vector<std::uint8_t> seen(std::size_t(n), 1);
  seen[2] = seen[5] = seen[40] = 0;
  for (const Sizes& sizes : {Sizes{7, 1, 1}, Sizes{31, 1, 4}, Sizes{5, 3, 2}}) {
    SCOPED_TRACE(sizes.text());
    for (const double alpha : {1.0, 1.5}) {
      const auto held = own_layer(own_config(sizes, alpha == 1 ? "softmax" : "entmax15"));
      AttentionInput global(n, n, 24);
      global.q = projected(held, "q", x);
      global.k = projected(held, "k", x);
      global.v = projected(held, "v", x);
      for (const bool causal : {false, true}) {
        for (const bool is_padded : {false, true}) {
          const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
          AttentionInput others = in;
          others.dout.topRows(sizes.global).setZero();
          AttentionResult expected = define_by_rule(others, 3, mask, alpha, rule(sizes));
          expected.o.topRows(sizes.global) =
              define_attention(global, 3, mask, alpha).o.topRows(sizes.global);
          Mat dx;
          const AttentionResult ours = run_with_input(*held.layer, in, x, mask, dx);
          expect_same(ours, expected);
          EXPECT_GT(dx.norm(), 0);
          EXPECT_EQ(dx.bottomRows(n - sizes.global).norm() == 0, causal);
        }
      }
    }
  }
}

/// All positions global, their projections those of the others: full attention.
TEST(LongformerAttention, OwnProjectionsInTheLimitAreFull) {
  const std::int64_t n = 90;
  auto held = own_layer(own_config({1, 1, n}));
  const Mat x = random_mat(n, 24, 9);
  AttentionInput in(n, n, 24);
  in.q = projected(held, "q", x);
  in.k = projected(held, "k", x);
  in.v = projected(held, "v", x);
  for (const bool causal : {false, true}) {
    Mat dx;
    const AttentionMask mask{.causal = causal};
    const AttentionResult ours = run_with_input(*held.layer, in, x, mask, dx);
    const AttentionResult full =
        run_attention(FullAttention(config_of_heads({})), training_pass(), in, mask);
    expect_close(ours.o, full.o, "o");
    // What it teaches goes through its projections.
    Mat expected = full.dq * held.parameter("global_q").matrix();
    expected += full.dk * held.parameter("global_k").matrix();
    expected += full.dv * held.parameter("global_v").matrix();
    expect_close(dx, expected, "dx");
    expect_close(held.gradient("global_v"), Mat(full.dv.transpose() * x), "global_v");
    held.zero_gradients();
  }
}

TEST(LongformerAttention, OwnProjectionsDecode) {
  for (const char* normaliser : {"softmax", "entmax15"}) {
    for (const Sizes& sizes : {Sizes{7, 1, 1}, Sizes{5, 3, 4}, Sizes{3, 1, 60}}) {
      SCOPED_TRACE(sizes.text());
      const std::int64_t n = 40;
      const Held<LongformerAttention> held(
          std::make_unique<LongformerAttention>(own_config(sizes, normaliser)), WeightType::f32);
      const LongformerAttention& layer = *held.layer;
      const Mat x = random_mat(n, 24, 9);
      const AttentionInput in(n, n, 24);
      const std::unique_ptr<Activations> kept = layer.make_activations();
      Pass pass = evaluation_pass();
      Mat expected, made(n, 24);
      layer.take_input(x, *kept);
      layer.forward(pass, in.q, in.k, in.v, {.causal = true}, *kept, expected);
      const auto cache = layer.make_cache(1, n);
      Barrier barrier(1);
      for (std::int64_t t = 0; t < n; ++t) {
        const StepContext ctx{find_kernel_set("simd"), barrier, 0, 1, 1, t, nullptr};
        layer.take_input(ctx, *cache, x.row(t).data());
        layer.step(ctx, *cache, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(),
                   made.row(t).data());
      }
      expect_close(made, expected, normaliser);
    }
  }
}

TEST(LongformerAttention, OwnProjectionsAreCounted) {
  LongformerAttention own(own_config({31, 1, 3}));
  const LongformerAttention shared(config({31, 1, 3}));
  const double d = 24;
  for (const bool causal : {false, true}) {
    const AttentionWork work = own.work(100, causal);
    EXPECT_EQ(work.pairs, shared.work(100, causal).pairs);
    EXPECT_EQ(work.products, 2 * d * d * (3 + 2 * (causal ? 3 : 100)));
    EXPECT_EQ(work.backward_products, 2 * work.products);
  }
  std::int64_t count = 0;
  own.visit_parameters([&](Parameter& p) { count += p.count(); });
  EXPECT_EQ(count, 3 * (24 * 24 + 24));
  EXPECT_EQ(own.cache_bytes(2, 100), shared.cache_bytes(2, 100) + KeyValueCache::bytes(2, 3, 3, 8) +
                                         2 * 4 * 24 * sizeof(float));
  // While positions are global, and no longer.
  EXPECT_EQ(total(own.step_cost(1, 3)).weights, double(count));
  EXPECT_EQ(total(own.step_cost(1, 3)).bytes,
            total(shared.step_cost(1, 3)).bytes + 4 * double(count) + 2 * 3 * d * 4);
  EXPECT_EQ(total(own.step_cost(1, 4)).bytes, total(shared.step_cost(1, 4)).bytes);
  EXPECT_EQ(total(own.step_cost(1, 4)).weights, 0);
}

TEST(LongformerAttention, OwnProjectionsWithoutGlobalPositionsAreRefused) {
  const std::string said = refusal<LongformerAttention>(own_config({7, 1, 0}));
  EXPECT_NE(said.find("longformer_global 0"), std::string::npos) << said;
  EXPECT_EQ(refusal<LongformerAttention>(own_config({7, 1, 1})), "");
  EXPECT_THROW(LongformerAttention(own_config({7, 1, 1})).take_heads({0, 1}), UserError);
}

}  // namespace
}  // namespace scaling
