// What a layer says it computes and holds, over the catalog, against products that are counted and
// matrices that are weighed.
#include <gtest/gtest.h>

#include <functional>

#include "models/layers/attention/lsh.h"
#include "tests/gemms.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/live_bytes.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kRows = 24;

/// FLOP of the products of a training forward, one position's.
double counted_flops(const std::function<void(Pass&)>& forward) {
  const Gemm& gemm = counted_gemm();
  Pass pass = training_pass();
  Pass counted{.gemm = gemm, .training = true, .seed = pass.seed};
  const std::vector<int> ids(std::size_t(kRows), 3);
  counted.ids = ids.data();
  multiplied_flops = 0;
  forward(counted);
  return double(multiplied_flops) / double(kRows);
}

class FeedForwardPricing : public testing::TestWithParam<std::string> {};

TEST_P(FeedForwardPricing, TrainingComputesWhatForwardFlopsSays) {
  for (const char* selector : {"learned", "random", "hash"}) {
    ModelConfig c = small_config();
    set_field(c, "selector", selector);
    set_field(c, "hard_probability", "0");
    const TrainedLayer<FeedForward> held(make_feed_forward(GetParam(), c));
    const auto kept = held.layer->make_activations();
    const Mat x = random_mat(kRows, c.d_model, 1);
    Mat y;
    // Of other selectors all calls are hard, and gather what they compute: no product with all.
    const bool gathers = GetParam() == "sparse" && std::string(selector) != "learned";
    const double gathered = gathers ? 4 * double(c.d_model * (c.d_ff / sparsity_of(c))) : 0;
    EXPECT_EQ(counted_flops([&](Pass& pass) { held.layer->forward(pass, x, *kept, y); }) + gathered,
              held.layer->forward_flops())
        << selector;
    EXPECT_GE(held.layer->forward_flops(), total(held.layer->step_cost(1, WeightType::f32)).flops);
  }
}

TEST(Pricing, HardCallsOfTheSparseFeedForwardComputeWhatAStepDoes) {
  ModelConfig c = small_config();
  set_field(c, "hard_probability", "1");
  const auto layer = make_feed_forward("sparse", c);
  EXPECT_EQ(layer->forward_flops(), total(layer->step_cost(1, WeightType::f32)).flops);
}

INSTANTIATE_TEST_SUITE_P(Catalog, FeedForwardPricing,
                         testing::ValuesIn(implementations_of("feed_forward")),
                         [](const auto& tested) { return tested.param; });

// Projections multiply a little less in training than they say: what lies beyond the edges of a
// convolution is left out, and a multiplicative layer's matrix is composed once for all positions.

TEST(Pricing, ProjectionsComputeInTrainingWhatTheyDoInAStep) {
  ModelConfig c = small_config();
  for (const std::string& name : implementations_of("projection")) {
    const TrainedLayer<Projection> held(make_projection(name, c));
    const auto kept = held.layer->make_activations();
    const Mat x = random_mat(kRows, c.d_model, 1);
    Projection::QKV qkv;
    Mat y;
    const double counted = counted_flops([&](Pass& pass) {
      held.layer->forward(pass, x, *kept, qkv);
      if (held.layer->has_output()) held.layer->forward_output(pass, x, *kept, y);
    });
    EXPECT_LE(counted, held.layer->forward_flops()) << name;
    EXPECT_GE(counted, 0.75 * held.layer->forward_flops()) << name;
  }
}

TEST(Pricing, CrossProjectionsOfBothSides) {
  ModelConfig c = small_config();
  for (const std::string& name : implementations_of("cross_projection")) {
    const TrainedLayer<CrossProjection> held(make_cross_projection(name, c));
    const auto kept = held.layer->make_activations();
    const Mat x = random_mat(kRows, c.d_model, 1);
    CrossProjection::Memory memory;
    Mat y;
    EXPECT_EQ(
        counted_flops([&](Pass& pass) { held.layer->forward_memory(pass, x, *kept, memory); }),
        held.layer->memory_flops())
        << name;
    const double counted = counted_flops([&](Pass& pass) {
      held.layer->forward_query(pass, x, *kept, y);
      if (held.layer->has_output()) held.layer->forward_output(pass, x, *kept, y);
    });
    EXPECT_LE(counted, held.layer->forward_flops()) << name;
    EXPECT_GE(counted, 0.75 * held.layer->forward_flops()) << name;
  }
}

TEST(Pricing, RecurrencesAndLosses) {
  ModelConfig c = small_config();
  const Mat x = random_mat(kRows, c.d_model, 1);
  Mat y;
  for (const std::string& name : implementations_of("recurrence")) {
    auto made = make_recurrence(name, c);
    if (!made) continue;  // the absence of one
    const TrainedLayer<Recurrence> held(std::move(made));
    const auto kept = held.layer->make_activations();
    EXPECT_EQ(counted_flops([&](Pass& pass) { held.layer->forward(pass, x, *kept, y); }),
              held.layer->forward_flops())
        << name;
  }
  for (const std::string& name : implementations_of("loss")) {
    const TrainedLayer<Loss> held(make_loss(name, c));
    const auto own = held.layer->make_activations();
    const double counted =
        counted_flops([&](Pass& pass) { held.layer->forward(pass, x, *own, y); });
    EXPECT_LE(counted, held.layer->forward_flops()) << name;
    EXPECT_GE(counted, 0.75 * held.layer->forward_flops()) << name;
  }
}

TEST(Pricing, FullAttentionMeetsEveryVisiblePair) {
  const ModelConfig c = small_config();
  const auto layer = make_attention("full", c);
  const double heads = double(c.n_heads);
  EXPECT_EQ(make_cross_attention(c)->work(5, 7).pairs, heads * 5 * 7);
  EXPECT_EQ(layer->work(6, false).pairs, heads * 6 * 6);
  EXPECT_EQ(layer->work(6, true).pairs, heads * (1 + 2 + 3 + 4 + 5 + 6));
  EXPECT_EQ(layer->work(6, true).choice, 0);
  const double d_head = double(c.d_head());
  EXPECT_EQ(layer->work(6, true).forward_flops(c.d_head()), 4 * d_head * heads * 21);
  EXPECT_EQ(layer->work(6, true).step_flops(c.d_head()), 12 * d_head * heads * 21);
}

/// What is expected of LSH attention before it has run, and what is counted once it has.
TEST(Pricing, LshAttentionComesNearItsExpectation) {
  ModelConfig c = small_config();
  set_field(c, "lsh_chunk", "16");
  const std::int64_t length = 256;
  const auto layer = make_attention("lsh", c);
  const auto full = make_attention("full", c);
  const auto kept = layer->make_activations();
  const Mat q = random_mat(length, c.d_model, 1), v = random_mat(length, c.d_model, 2);
  Mat o;
  for (const bool causal : {true, false}) {
    Pass pass = training_pass();
    layer->forward(pass, q, q, v, {.causal = causal}, *kept, o);
    const AttentionWork expected = layer->work(length, causal);
    const AttentionWork counted = layer->work_of(*kept, length, causal);
    EXPECT_NEAR(expected.pairs, counted.pairs, 0.1 * counted.pairs) << causal;
    EXPECT_EQ(expected.choice, counted.choice);
    EXPECT_GT(counted.choice, 0);
    EXPECT_LT(expected.forward_flops(c.d_head()),
              full->work(length, causal).forward_flops(c.d_head()));
  }
  // A chunk of all is all but the query itself, in every round.
  set_field(c, "lsh_chunk", "256");
  set_field(c, "lsh_rounds", "1");
  EXPECT_EQ(make_attention("lsh", c)->work(length, false).pairs,
            double(c.n_heads * length * (length - 1)));
}

#ifdef SCALING_COUNTS_ALLOCATIONS

/// Floats that `step(x, activations)`, a forward and a backward, leaves in the activations for each
/// further position; it frees what else it takes.
double held_floats(const Layer& layer, const ModelConfig& c,
                   const std::function<void(const Mat&, Activations&)>& step) {
  const auto held = [&](std::int64_t rows) {
    const Mat x = random_mat(rows, c.d_model, 1);
    step(x, *layer.make_activations());  // what stays for good is there
    const auto kept = layer.make_activations();
    const std::int64_t before = live_bytes();
    step(x, *kept);
    return double(live_bytes() - before);
  };
  // More than convolutions look at together.
  const std::int64_t rows = 1500;
  return (held(2 * rows) - held(rows)) / double(rows) / sizeof(float);
}

TEST(Pricing, ActivationsWeighWhatTheySay) {
  ModelConfig c = small_config();
  set_gemm_threads(1);
  const auto expect_said = [](double held, double said, const std::string& name) {
    EXPECT_NEAR(held, said, 0.02 * said + 0.5) << name;
  };
  for (const std::string& name : implementations_of("feed_forward")) {
    const TrainedLayer<FeedForward> t(make_feed_forward(name, c));
    const double held = held_floats(*t.layer, c, [&](const Mat& x, Activations& kept) {
      for (const double hard_share : {0.0, 1.0}) {
        Pass pass = training_pass();
        pass.hard_share = hard_share;
        Mat y, dx;
        t.layer->forward(pass, x, kept, y);
        t.layer->backward(pass, x, kept, y, dx);
      }
    });
    expect_said(held, t.layer->activation_floats(), name);
  }
  for (const std::string& name : implementations_of("projection")) {
    const TrainedLayer<Projection> t(make_projection(name, c));
    const double held = held_floats(*t.layer, c, [&](const Mat& x, Activations& kept) {
      Pass pass = training_pass();
      Projection::QKV qkv;
      Mat y, dx;
      t.layer->forward(pass, x, kept, qkv);
      if (t.layer->has_output()) {
        t.layer->forward_output(pass, x, kept, y);
        t.layer->backward_output(pass, x, kept, y, dx);
      }
      t.layer->backward(pass, x, kept, qkv, dx);
    });
    expect_said(held, t.layer->activation_floats(), name);
  }
  for (const std::string& name : implementations_of("cross_projection")) {
    const TrainedLayer<CrossProjection> t(make_cross_projection(name, c));
    const double held = held_floats(*t.layer, c, [&](const Mat& x, Activations& kept) {
      Pass pass = training_pass();
      Mat q, y, dx;
      t.layer->forward_query(pass, x, kept, q);
      if (t.layer->has_output()) {
        t.layer->forward_output(pass, x, kept, y);
        t.layer->backward_output(pass, x, kept, y, dx);
      }
      t.layer->backward_query(pass, x, kept, q, dx);
    });
    expect_said(held, t.layer->activation_floats(), name);
  }
  const TrainedLayer<Recurrence> sru(make_recurrence("sru", c));
  expect_said(held_floats(*sru.layer, c,
                          [&](const Mat& x, Activations& kept) {
                            Pass pass = training_pass();
                            Mat y, dx;
                            sru.layer->forward(pass, x, kept, y);
                            sru.layer->backward(pass, x, kept, y, dx);
                          }),
              sru.layer->activation_floats(), "sru");
}

/// One example in one thread: what each position keeps, and the thread's buffers.
TEST(Pricing, AttentionsWeighWhatTheySayOfThemselvesAndTheirThreads) {
  ModelConfig c = small_config();
  set_gemm_threads(1);
  const std::int64_t n = 1500;
  c.max_length = n;
  for (const auto& [knob, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"band_width", 256},
                                                         {"attention_stride", 128},
                                                         {"fixed_summary", 32},
                                                         {"bigbird_block", 64},
                                                         {"window_width", 257},
                                                         {"longformer_dilation", 1},
                                                         {"performer_features", 50}}) {
    set_field(c, knob, value);
  }
  std::vector<std::string> all = implementations_of("attention");
  all.insert(all.end(), {"window+full", "window+routing", "longformer:longformer_projections=own",
                         "lsh:lsh_graph=buckets:lsh_count=once:lsh_rounds=8"});
  for (const std::string& name : all) {
    c.attention = name;
    const TrainedLayer<SelfAttention> t(make_self_attention(c));
    const auto held = [&] {
      const Mat x = random_mat(n, c.d_model, 1);
      const auto kept = t.layer->make_activations();
      const std::int64_t before = live_bytes();
      {
        Pass pass = training_pass();
        Mat o, dq, dk, dv;
        t.layer->take_input(x, *kept);
        t.layer->forward(pass, x, x, x, {}, *kept, o);
        t.layer->backward(pass, x, x, x, {}, *kept, o, dq, dk, dv);
      }
      return double(live_bytes() - before) / sizeof(float);
    };
    held();  // what stays for good is there
    const double said = double(n) * t.layer->activation_floats() + t.layer->thread_floats(n);
    EXPECT_NEAR(held(), said, 0.1 * said) << name;
  }
}

/// Whatever the numbers of queries and of keys.
TEST(Pricing, CrossAttentionsWeighWhatTheySay) {
  ModelConfig c = small_config();
  set_gemm_threads(1);
  c.max_length = 1200;
  set_field(c, "linformer_rank", 100);
  for (const std::string& name : implementations_of("cross_attention")) {
    const TrainedLayer<CrossAttention> t(make_cross_attention(name, c));
    for (const auto& [queries, keys] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1200, 90}, {90, 1200}}) {
      const Mat q = random_mat(queries, c.d_model, 1), k = random_mat(keys, c.d_model, 2);
      const auto held = [&] {
        const auto kept = t.layer->make_activations();
        const std::int64_t before = live_bytes();
        {
          Pass pass = training_pass();
          Mat o, dq, dk, dv;
          t.layer->forward(pass, q, k, k, {}, *kept, o);
          t.layer->backward(pass, q, k, k, {}, *kept, o, dq, dk, dv);
        }
        return double(live_bytes() - before) / sizeof(float);
      };
      held();  // what stays for good is there
      const double said =
          t.layer->activation_floats(queries, keys) + t.layer->thread_floats(queries, keys);
      EXPECT_NEAR(held(), said, 0.1 * said) << name << " " << queries << " " << keys;
    }
  }
}

#endif

}  // namespace
}  // namespace scaling
