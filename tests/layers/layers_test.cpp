// Every implementation of every component: step over a sequence is forward, whatever the threads,
// tokens and weight type.
#include "kernels/check.h"
#include "models/layer.h"
#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/layers/parts/multiplicative_dense.h"
#include "tests/layers/layer_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kPositions = 6;

struct Setting {
  WeightType type;
  int threads;
  int tokens;
  ModelConfig config;
  std::string text() const {
    return std::string(name_of(type)) + " threads " + std::to_string(threads) + " tokens " +
           std::to_string(tokens) + " d_model " + std::to_string(config.d_model);
  }
};

std::vector<Setting> settings() {
  // Beside the awkward config: modules of exactly two panels, which one and two threads share by
  // columns and three by rows, two tokens' convolution, several controllers' panels.
  ModelConfig even = small_config();
  even.d_model = 64;
  even.d_ff = 256;
  even.n_heads = 4;
  set_field(even, "modules", 2);
  set_field(even, "sparsity", 32);
  set_field(even, "kernel_size", 2);
  even.vocab_size = 128;
  std::vector<Setting> all;
  for (const ModelConfig& config : {small_config(), even}) {
    for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
      for (const int threads : {1, 2, 3}) {
        for (const int tokens : {1, 3}) all.push_back({type, threads, tokens, config});
      }
    }
  }
  return all;
}

std::vector<Mat> sequences(const Setting& s, std::uint64_t stream = 0) {
  std::vector<Mat> all;
  for (int t = 0; t < s.tokens; ++t) {
    all.push_back(random_mat(kPositions, s.config.d_model, stream + 10 * std::uint64_t(t)));
  }
  return all;
}

const KernelSet& kernels() { return find_kernel_set("simd"); }

using Outputs = std::vector<Mat>;  // by sequence, (positions, features)

Outputs outputs(const Setting& s, std::int64_t width) {
  return Outputs(std::size_t(s.tokens), Mat::Zero(kPositions, width));
}

void keep(Outputs& to, const Mat& rows, std::int64_t position) {
  for (std::size_t s = 0; s < to.size(); ++s) to[s].row(position) = rows.row(std::int64_t(s));
}

/// Steps a function of one input and one output over all positions.
Outputs step_through(const Setting& s, const Layer& layer, std::int64_t width,
                     const std::vector<Mat>& x,
                     const std::function<void(const StepContext&, const float*, float*)>& fn,
                     const std::function<void(std::int64_t)>& look = {}) {
  Outputs y = outputs(s, width);
  Mat in, out(s.tokens, width);
  const Stepper stepper{kernels(), s.threads, s.tokens,
                        layer.workspace_floats(s.tokens, s.threads)};
  stepper.run(
      kPositions,
      [&](std::int64_t position) {
        in = rows_at(x, position);
        out.setConstant(1e30f);
      },
      [&](const StepContext& ctx) { fn(ctx, in.data(), out.data()); },
      [&](std::int64_t position) {
        keep(y, out, position);
        if (look) look(position);
      });
  return y;
}

void expect_same(const Outputs& ours, const Outputs& expected, const std::string& what) {
  for (std::size_t s = 0; s < ours.size(); ++s) {
    expect_close(ours[s], expected[s], what + " sequence " + std::to_string(s));
  }
}

template <class Forward>
Outputs each(const std::vector<Mat>& x, Forward&& forward) {
  Outputs y;
  for (const Mat& sequence : x) y.push_back(forward(sequence));
  return y;
}

/// What a step takes: of each kind one input a sequence.
using Inputs = std::vector<std::vector<Mat>>;

/// Rows that go on from one another between steps are sequences that were always apart.
/// stepped(setting, inputs, sources): outputs of a layer with a state of its own, asked by go_on.
void expect_own_pasts(
    const std::string& what, std::size_t kinds,
    const std::function<Outputs(const Setting&, const Inputs&, const Sources*)>& stepped) {
  for (Setting s : settings()) {
    if (s.tokens == 1) continue;
    s.tokens = 4;
    SCOPED_TRACE(s.text());
    const Sources sources = draw_sources(kPositions, s.tokens, 17);
    Inputs x, pasts;
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      x.push_back(sequences(s, 3 * kind));
      pasts.push_back(pasts_of(x.back(), sources));
    }
    const Outputs moved = pasts_of(stepped(s, x, &sources), sources);
    s.tokens = 1;
    for (std::size_t t = 0; t < moved.size(); ++t) {
      Inputs alone;
      for (const std::vector<Mat>& kind : pasts) alone.push_back({kind[t]});
      expect_close(moved[t], stepped(s, alone, nullptr)[0], what + " row " + std::to_string(t));
    }
  }
}

/// Where step chose otherwise than forward, the two best logits must be within 1e-5 and the
/// position is not compared. logits (positions, groups * n); chosen(position, group): step's choice
/// within the group.
class SelectionCheck {
 public:
  void look(const Mat& z, std::int64_t position, std::int64_t n, std::int64_t group,
            std::int64_t chosen) {
    const auto segment = z.row(position).segment(group * n, n);
    std::int64_t best = 0;
    const float top = segment.maxCoeff(&best);
    ++seen_;
    if (best == chosen) return;
    EXPECT_LE(top - segment(chosen), 1e-5f) << "a different selection without a tie";
    positions_.push_back(position);
  }
  void forget(Mat& ours, const Mat& expected) const {
    for (const std::int64_t p : positions_) ours.row(p) = expected.row(p);
  }
  std::int64_t seen() const { return seen_; }

 private:
  std::int64_t seen_ = 0;
  std::vector<std::int64_t> positions_;
};

class FeedForwardTest : public testing::TestWithParam<std::string> {};

TEST_P(FeedForwardTest, StepIsForward) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    for (const bool b1 : {false, true}) {
      ModelConfig c = s.config;
      set_field(c, "feed_forward_bias", b1);
      const Held<FeedForward> held(make_feed_forward(GetParam(), c), s.type);
      const FeedForward& layer = *held.layer;
      const auto* sparse = dynamic_cast<const SparseFeedForward*>(&layer);
      const auto* moe = dynamic_cast<const MoeFeedForward*>(&layer);
      if (b1 && !sparse) continue;
      const std::vector<Mat> x = sequences(s);
      const auto state = layer.make_state(s.tokens);
      const Choices choices = layer.choices();
      EXPECT_EQ(choices, sparse ? (Choices{c.d_ff / sparsity_of(c), sparsity_of(c)})
                         : moe  ? (Choices{1, experts_of(c)})
                                : Choices{});
      std::vector<SelectionCheck> checks(x.size());
      std::vector<Mat> logits;
      for (const Mat& one : x) {
        if (sparse) logits.push_back(sparse->controller_logits(one));
        if (moe) logits.push_back(moe->router_logits(one));
      }
      Outputs y = step_through(
          s, layer, c.d_model, x,
          [&](const StepContext& ctx, const float* in, float* out) {
            layer.step(ctx, state.get(), in, out);
          },
          [&](std::int64_t position) {
            const std::vector<std::int32_t> chosen = layer.chosen(state.get());
            for (std::size_t t = 0; t < x.size(); ++t) {
              for (std::int64_t i = 0; i < choices.count; ++i) {
                checks[t].look(logits[t], position, choices.options, i,
                               chosen[std::size_t(std::int64_t(t) * choices.count + i)]);
              }
            }
          });
      const Outputs expected = each(x, [&](const Mat& m) { return layer.forward(m); });
      for (std::size_t t = 0; t < y.size(); ++t) {
        checks[t].forget(y[t], expected[t]);
        EXPECT_EQ(checks[t].seen(), choices.count * kPositions);
      }
      expect_same(y, expected, GetParam());
    }
  }
}

/// What is replayed is taken, whoever chose it: itself to no other bit, others to what their rows
/// make of the input.
TEST_P(FeedForwardTest, ReplayedChoicesAreTaken) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const ModelConfig& c = s.config;
    Held<FeedForward> held(make_feed_forward(GetParam(), c), s.type);
    const FeedForward& layer = *held.layer;
    const Choices choices = layer.choices();
    if (choices.count == 0) GTEST_SKIP() << "it chooses nothing";
    const std::vector<Mat> x = sequences(s);
    std::vector<std::vector<std::int32_t>> replayed;  // by position
    std::vector<std::vector<std::int32_t>> taken;
    const auto run = [&] {
      const auto state = layer.make_state(s.tokens);
      taken.clear();
      return step_through(
          s, layer, c.d_model, x,
          [&](const StepContext& ctx, const float* in, float* out) {
            if (ctx.thread == 0 && !replayed.empty()) {
              layer.replay(state.get(), replayed[std::size_t(ctx.position)].data());
            }
            ctx.sync();
            layer.step(ctx, state.get(), in, out);
          },
          [&](std::int64_t) { taken.push_back(layer.chosen(state.get())); });
    };
    const Outputs own = run();
    replayed = taken;
    const Outputs again = run();
    for (std::size_t t = 0; t < own.size(); ++t) EXPECT_TRUE(again[t] == own[t]);
    for (auto& position : replayed) {
      for (std::int32_t& option : position) option = std::int32_t((option + 1) % choices.options);
    }
    const Outputs others = run();
    EXPECT_EQ(taken, replayed);
    const std::int64_t width = c.d_ff / (choices.count * choices.options);  // rows of an option
    for (std::size_t t = 0; t < others.size() && GetParam() != "moe_switch"; ++t) {
      Mat expected = Mat::Zero(kPositions, c.d_model);
      for (std::int64_t at = 0; at < kPositions; ++at) {
        for (std::int64_t j = 0; j < c.d_model; ++j)
          expected(at, j) = held.parameter("b2").get(0, j);
        for (std::int64_t i = 0; i < choices.count; ++i) {
          const std::int64_t option =
              replayed[std::size_t(at)][t * std::size_t(choices.count) + std::size_t(i)];
          for (std::int64_t k = 0; k < width; ++k) {
            const std::int64_t row = (i * choices.options + option) * width + k;
            float h = 0;
            for (std::int64_t j = 0; j < c.d_model; ++j)
              h += held.parameter("w1").get(row, j) * x[t](at, j);
            for (std::int64_t j = 0; j < c.d_model; ++j) {
              expected(at, j) += std::max(h, 0.0f) * held.parameter("w2").get(row, j);
            }
          }
        }
      }
      expect_close(others[t], expected, "others");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, FeedForwardTest,
                         testing::ValuesIn(implementations_of("feed_forward")),
                         [](const auto& tested) { return tested.param; });

class ProjectionTest : public testing::TestWithParam<std::string> {};

TEST_P(ProjectionTest, StepIsForward) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const std::int64_t d = s.config.d_model;
    const Held<Projection> held(make_projection(GetParam(), s.config), s.type);
    const Projection& layer = *held.layer;
    const std::vector<Mat> x = sequences(s), o = sequences(s, 5);
    Outputs q = outputs(s, d), k = q, v = q, y = q;
    Mat in, in_o, out_q(s.tokens, d), out_k = out_q, out_v = out_q, out_y = out_q;
    const auto state = layer.make_state(s.tokens);
    const Stepper stepper{kernels(), s.threads, s.tokens,
                          layer.workspace_floats(s.tokens, s.threads)};
    stepper.run(
        kPositions,
        [&](std::int64_t position) {
          in = rows_at(x, position);
          in_o = rows_at(o, position);
          for (Mat* m : {&out_q, &out_k, &out_v, &out_y}) m->setConstant(1e30f);
        },
        [&](const StepContext& ctx) {
          layer.step(ctx, state.get(), in.data(), out_q.data(), out_k.data(), out_v.data());
          if (layer.has_output()) {
            layer.step_output(ctx, state.get(), in_o.data(), out_y.data());
          }
        },
        [&](std::int64_t position) {
          keep(q, out_q, position);
          keep(k, out_k, position);
          keep(v, out_v, position);
          keep(y, out_y, position);
        });
    expect_same(q, each(x, [&](const Mat& m) { return layer.forward(m).q; }), "q");
    expect_same(k, each(x, [&](const Mat& m) { return layer.forward(m).k; }), "k");
    expect_same(v, each(x, [&](const Mat& m) { return layer.forward(m).v; }), "v");
    if (layer.has_output()) {
      expect_same(y, each(o, [&](const Mat& m) { return layer.forward_output(m); }), "output");
    }
  }
}

TEST_P(ProjectionTest, RowsGoOnFromOthers) {
  expect_own_pasts(GetParam(), 2, [&](const Setting& s, const Inputs& x, const Sources* sources) {
    const std::int64_t d = s.config.d_model;
    const Held<Projection> held(make_projection(GetParam(), s.config), s.type);
    const Projection& layer = *held.layer;
    const auto state = layer.make_state(s.tokens);
    Mat o, q = Mat::Zero(s.tokens, d), k = q, v = q, y = q;
    return step_through(s, layer, 4 * d, x[0],
                        [&](const StepContext& ctx, const float* in, float* out) {
                          go_on(ctx, state.get(), sources);
                          if (ctx.thread == 0) o = rows_at(x[1], ctx.position);
                          ctx.sync();
                          layer.step(ctx, state.get(), in, q.data(), k.data(), v.data());
                          if (layer.has_output())
                            layer.step_output(ctx, state.get(), o.data(), y.data());
                          if (ctx.thread == 0) Eigen::Map<Mat>(out, s.tokens, 4 * d) << q, k, v, y;
                        });
  });
}

INSTANTIATE_TEST_SUITE_P(Catalog, ProjectionTest,
                         testing::ValuesIn(implementations_of("projection")),
                         [](const auto& tested) { return tested.param; });

class CrossProjectionTest : public testing::TestWithParam<std::string> {};

TEST_P(CrossProjectionTest, StepIsForward) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const std::int64_t d = s.config.d_model;
    const Held<CrossProjection> held(make_cross_projection(GetParam(), s.config), s.type);
    const CrossProjection& layer = *held.layer;
    const std::vector<Mat> x = sequences(s), o = sequences(s, 5);
    const auto state = layer.make_state(s.tokens);
    const Outputs q =
        step_through(s, layer, d, x, [&](const StepContext& ctx, const float* in, float* out) {
          layer.step_query(ctx, state.get(), in, out);
        });
    expect_same(q, each(x, [&](const Mat& m) { return layer.forward_query(m); }), "query");
    for (const bool want_k : {true, false}) {
      Mat k(s.tokens, d), v(s.tokens, d);
      const Outputs memory =
          step_through(s, layer, d, x, [&](const StepContext& ctx, const float* in, float* out) {
            layer.step_memory(ctx, in, want_k ? out : k.data(), want_k ? v.data() : out);
          });
      expect_same(memory,
                  each(x,
                       [&](const Mat& m) {
                         const CrossProjection::Memory both = layer.forward_memory(m);
                         return want_k ? both.k : both.v;
                       }),
                  "memory");
    }
    if (!layer.has_output()) continue;
    const Outputs y =
        step_through(s, layer, d, o, [&](const StepContext& ctx, const float* in, float* out) {
          layer.step_output(ctx, state.get(), in, out);
        });
    expect_same(y, each(o, [&](const Mat& m) { return layer.forward_output(m); }), "output");
  }
}

TEST_P(CrossProjectionTest, RowsGoOnFromOthers) {
  expect_own_pasts(GetParam(), 2, [&](const Setting& s, const Inputs& x, const Sources* sources) {
    const std::int64_t d = s.config.d_model;
    const Held<CrossProjection> held(make_cross_projection(GetParam(), s.config), s.type);
    const CrossProjection& layer = *held.layer;
    const auto state = layer.make_state(s.tokens);
    Mat o, q = Mat::Zero(s.tokens, d), y = q;
    return step_through(s, layer, 2 * d, x[0],
                        [&](const StepContext& ctx, const float* in, float* out) {
                          go_on(ctx, state.get(), sources);
                          if (ctx.thread == 0) o = rows_at(x[1], ctx.position);
                          ctx.sync();
                          layer.step_query(ctx, state.get(), in, q.data());
                          if (layer.has_output())
                            layer.step_output(ctx, state.get(), o.data(), y.data());
                          if (ctx.thread == 0) Eigen::Map<Mat>(out, s.tokens, 2 * d) << q, y;
                        });
  });
}

INSTANTIATE_TEST_SUITE_P(Catalog, CrossProjectionTest,
                         testing::ValuesIn(implementations_of("cross_projection")),
                         [](const auto& tested) { return tested.param; });

class LossTest : public testing::TestWithParam<std::string> {};

TEST_P(LossTest, StepIsForward) {
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const Held<Loss> held(make_loss(GetParam(), s.config), s.type);
    const std::vector<Mat> x = sequences(s);
    const auto state = held.layer->make_state(s.tokens);
    const Outputs y = step_through(s, *held.layer, s.config.vocab_size, x,
                                   [&](const StepContext& ctx, const float* in, float* out) {
                                     held.layer->step(ctx, state.get(), in, out);
                                   });
    expect_same(y, each(x, [&](const Mat& m) { return held.layer->forward(m); }), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, LossTest, testing::ValuesIn(implementations_of("loss")),
                         [](const auto& tested) { return tested.param; });

class AttentionTest : public testing::TestWithParam<std::string> {};

Traits traits_of(const std::string& name) {
  ModelConfig c = small_config();
  c.attention = name;
  return chosen_entry(c, "attention").traits;
}

bool steps_approximately(const std::string& name) {
  return traits_of(name).step == StepIs::approximate;
}

TEST_P(AttentionTest, StepIsForward) {
  if (traits_of(GetParam()).step != StepIs::exact) GTEST_SKIP() << "its step is another, or none";
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const ModelConfig& c = s.config;
    const auto attention = make_attention(GetParam(), c);
    const std::vector<Mat> q = sequences(s), k = sequences(s, 3), v = sequences(s, 6);
    const auto cache = attention->make_cache(s.tokens, kPositions);
    Mat k_rows, v_rows;
    Outputs expected;
    const Outputs y = step_through(
        s, *attention, c.d_model, q, [&](const StepContext& ctx, const float* in, float* out) {
          // Plain reads of shared rows: thread 0 fetches them, all wait.
          if (ctx.thread == 0) {
            k_rows = rows_at(k, ctx.position);
            v_rows = rows_at(v, ctx.position);
          }
          ctx.sync();
          attention->step(ctx, *cache, in, k_rows.data(), v_rows.data(), out);
        });
    for (std::size_t t = 0; t < q.size(); ++t) {
      expected.push_back(attention->forward(q[t], k[t], v[t], true));
    }
    expect_same(y, expected, "causal");
  }
}

/// One head, and values that tell whose they are: o is then what each query makes of each key.
TEST_P(AttentionTest, PairsAreThoseThatMeet) {
  ModelConfig c = small_config();
  c.d_model = 32;
  c.n_heads = 1;
  const Held<SelfAttention> held(make_attention(GetParam(), c), WeightType::f32);
  const SelfAttention* attention = held.layer.get();
  for (const std::int64_t length : {1, 2, 6}) {
    const Mat q = random_mat(length, c.d_model, 1);
    for (const bool causal : {false, true}) {
      if (causal && traits_of(GetParam()).step == StepIs::none) {
        EXPECT_THROW(attention->forward(q, q, q, true), UserError);
        EXPECT_THROW(attention->make_cache(1, length), UserError);
        continue;
      }
      Pass pass = evaluation_pass();
      const auto kept = attention->make_activations();
      Mat met;
      attention->forward(pass, q, q, Mat::Identity(length, c.d_model), {.causal = causal}, *kept,
                         met);
      double pairs = 0;
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t j = 0; j < length; ++j) {
          pairs += met(t, j) != 0;
          EXPECT_FALSE(causal && j > t && met(t, j) != 0) << t << " sees " << j;
        }
      }
      // Where who meets depends on the values, as in approximate ones, the work is an expectation:
      // pricing_test holds it. Without a graph there are none to count.
      if (steps_approximately(GetParam())) continue;
      if (!traits_of(GetParam()).has_graph) pairs = 0;
      EXPECT_EQ(attention->work_of(*kept, length, causal).pairs, pairs) << length;
    }
  }
}

TEST_P(AttentionTest, RowsGoOnFromOthers) {
  if (traits_of(GetParam()).step == StepIs::none) GTEST_SKIP() << "it has no step";
  expect_own_pasts(GetParam(), 3, [&](const Setting& s, const Inputs& x, const Sources* sources) {
    ModelConfig c = s.config;
    set_field(c, "lsh_chunk", 1);  // so that a step chooses among six positions
    const auto attention = make_attention(GetParam(), c);
    const auto cache = attention->make_cache(s.tokens, kPositions);
    Mat k, v;
    return step_through(s, *attention, c.d_model, x[0],
                        [&](const StepContext& ctx, const float* in, float* out) {
                          go_on(ctx, cache.get(), sources);
                          if (ctx.thread == 0) {
                            k = rows_at(x[1], ctx.position);
                            v = rows_at(x[2], ctx.position);
                          }
                          ctx.sync();
                          attention->step(ctx, *cache, in, k.data(), v.data(), out);
                        });
  });
}

INSTANTIATE_TEST_SUITE_P(Catalog, AttentionTest, testing::ValuesIn(implementations_of("attention")),
                         [](const auto& tested) { return tested.param; });

class CrossAttentionTest : public testing::TestWithParam<std::string> {};

/// Also where a cache is filled a second time, from the first key on.
TEST_P(CrossAttentionTest, StepIsForward) {
  const std::int64_t keys = kPositions - 1;
  for (const Setting& s : settings()) {
    SCOPED_TRACE(s.text());
    const Held<CrossAttention> held(make_cross_attention(GetParam(), s.config), s.type);
    const auto& attention = held.layer;
    const std::vector<Mat> q = sequences(s);
    const Mat k = random_mat(keys, s.config.d_model, 3), v = random_mat(keys, s.config.d_model, 6);
    const auto cache = attention->make_cache(s.tokens, keys);
    const Outputs y = step_through(s, *attention, s.config.d_model, q,
                                   [&](const StepContext& ctx, const float* in, float* out) {
                                     if (ctx.position == 0) {
                                       attention->fill(ctx, *cache, 0, 3, v.data(), k.data());
                                       ctx.sync();
                                       attention->fill(ctx, *cache, 0, 2, k.data(), v.data());
                                       attention->fill(ctx, *cache, 2, int(keys) - 2,
                                                       k.row(2).data(), v.row(2).data());
                                       ctx.sync();
                                     }
                                     attention->step(ctx, *cache, keys, in, out);
                                   });
    expect_same(y, each(q, [&](const Mat& m) { return attention->forward(m, k, v); }), "cross");
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, CrossAttentionTest,
                         testing::ValuesIn(implementations_of("cross_attention")),
                         [](const auto& tested) { return tested.param; });

/// Paper 2.5: D and E can route every input to any one output.
TEST(MultiplicativeDenseTest, ReproducesAnyPermutation) {
  const std::int64_t d = 48, modules = 4, width = d / modules;
  Held<MultiplicativeDense> held(std::make_unique<MultiplicativeDense>("m", d, modules, d),
                                 WeightType::f32);
  std::vector<std::int64_t> to(std::size_t(d), 0);
  for (std::int64_t i = 0; i < d; ++i) to[std::size_t(i)] = i;
  Rng rng(3);
  for (std::uint32_t i = std::uint32_t(d); i > 1; --i) std::swap(to[i - 1], to[rng.below(i)]);
  Parameter &dm = held.parameter("m.d"), &em = held.parameter("m.e"),
            &bias = held.parameter("m.bias");
  for (std::int64_t i = 0; i < d; ++i) {
    bias.set(0, i, 0);
    for (std::int64_t s = 0; s < modules; ++s) dm.set(i, s, s == to[std::size_t(i)] / width);
    for (std::int64_t m = 0; m < width; ++m) em.set(i, m, m == to[std::size_t(i)] % width);
  }
  const Mat x = random_mat(1, d, 9);
  Mat expected(1, d), y = Mat::Constant(1, d, 1e30f);
  for (std::int64_t i = 0; i < d; ++i) expected(0, to[std::size_t(i)]) = x(0, i);
  Pass pass{.gemm = find_gemm("eigen")};
  MultiplicativeDense::Kept kept;
  Mat forwarded;
  held.layer->forward(pass, x, kept, forwarded);
  EXPECT_EQ(forwarded, expected);
  const Stepper stepper{kernels(), 2, 1, held.layer->workspace_floats(1, 2)};
  stepper.run(
      1, [](std::int64_t) {},
      [&](const StepContext& ctx) {
        for (int p = 0; p < MultiplicativeDense::kPhases; ++p) {
          held.layer->phase(p, ctx, ctx.workspace, x.data(), y.data());
          ctx.sync();
        }
      },
      [](std::int64_t) {});
  EXPECT_EQ(y, expected);
}

void copy_parameter(Held<FeedForward>& from, Held<FeedForward>& to, const std::string& name) {
  const Parameter& source = from.parameter(name);
  Parameter& target = to.parameter(name);
  for (std::int64_t i = 0; i < source.rows; ++i) {
    for (std::int64_t j = 0; j < source.cols; ++j) target.set(i, j, source.get(i, j));
  }
}

TEST(SparseFeedForwardTest, AtSparsityOneIsDenseWithoutFirstBias) {
  ModelConfig c = small_config();
  set_field(c, "sparsity", 1);
  Held<FeedForward> sparse(make_feed_forward("sparse", c), WeightType::f32);
  Held<FeedForward> dense(make_feed_forward("dense", c), WeightType::f32, 2);
  for (const char* name : {"w1", "w2", "b2"}) copy_parameter(sparse, dense, name);
  for (std::int64_t j = 0; j < c.d_ff; ++j) dense.parameter("b1").set(0, j, 0);
  const Setting s{WeightType::f32, 2, 1, c};
  const std::vector<Mat> x = sequences(s);
  const auto state = sparse.layer->make_state(1);
  const Outputs y = step_through(s, *sparse.layer, c.d_model, x,
                                 [&](const StepContext& ctx, const float* in, float* out) {
                                   sparse.layer->step(ctx, state.get(), in, out);
                                 });
  expect_close(y[0], dense.layer->forward(x[0]), "step");
  expect_close(sparse.layer->forward(x[0]), dense.layer->forward(x[0]), "forward");
  EXPECT_EQ(std::int64_t(sparse.layer->touched_rows(state.get()).size()), c.d_ff);
}

TEST(DenseReluSkipTest, CountsTheRowsItReads) {
  const ModelConfig c = small_config();
  Held<FeedForward> held(make_feed_forward("dense_relu_skip", c), WeightType::f32);
  const Setting s{WeightType::f32, 2, 1, c};
  const std::vector<Mat> x = sequences(s);
  Mat h = x[0] * held.parameter("w1").matrix().transpose();
  h.rowwise() += held.parameter("b1").matrix().row(0);
  const auto state = held.layer->make_state(1);
  step_through(
      s, *held.layer, c.d_model, x,
      [&](const StepContext& ctx, const float* in, float* out) {
        held.layer->step(ctx, state.get(), in, out);
      },
      [&](std::int64_t position) {
        std::vector<std::int32_t> active;
        for (std::int64_t j = 0; j < c.d_ff; ++j) {
          if (h(position, j) > 0) active.push_back(std::int32_t(j));
        }
        EXPECT_EQ(held.layer->touched_rows(state.get()), active);
        EXPECT_LT(active.size(), std::size_t(c.d_ff));
      });
}

}  // namespace
}  // namespace scaling
