// Attention to sums over positions, against exact attention and its definition in double precision;
// finite differences of it are in gradient_test.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/linformer.h"
#include "models/tasks/catalog.h"
#include "models/training/agreement.h"
#include "models/transformer/decoder.h"
#include "models/transformer/transformer.h"
#include "tests/gemms.h"
#include "tests/helpers.h"
#include "tests/layers/attention_definition.h"
#include "tests/models/live_bytes.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kHeads = 3, kWidth = 24;

ModelConfig config(std::int64_t rank, std::int64_t length, const char* sharing = "headwise") {
  ModelConfig c;
  c.d_model = kWidth;
  c.n_heads = kHeads;
  c.attention = "linformer";
  set_field(c, "linformer_rank", rank);
  set_field(c, "linformer_length", length);
  set_field(c, "linformer_sharing", sharing);
  return c;
}

TrainedLayer<SelfAttention> layer_of(const ModelConfig& c) {
  return TrainedLayer<SelfAttention>(make_attention("linformer", c));
}

struct Result : AttentionResult {
  Mat de, df;
};

/// One example, plainly: sums of what is seen, by the first columns, softmax over the sums.
Result define_linformer(const AttentionInput& in, const Mat& e, const Mat& f,
                        const std::vector<std::uint8_t>& seen) {
  const std::int64_t d = kWidth / kHeads, rank = e.rows();
  std::vector<std::int64_t> at;  // where the rows are that sums are over
  for (std::int64_t t = 0; t < in.k.rows(); ++t) {
    if (seen[std::size_t(t)]) at.push_back(t);
  }
  const auto n = std::int64_t(at.size());
  const Double es = e.leftCols(n).cast<double>(), fs = f.leftCols(n).cast<double>();
  const Double k = in.k(at, Eigen::all).cast<double>(), v = in.v(at, Eigen::all).cast<double>();
  const Double k_sums = es * k, v_sums = fs * v;
  Double dk_sums = Double::Zero(rank, kWidth), dv_sums = dk_sums;
  Result r;
  r.o.resize(in.q.rows(), kWidth);
  r.dq.resize(in.q.rows(), kWidth);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const auto of = [&](const Double& all) -> Double { return all.middleCols(head * d, d); };
    const Double q = of(in.q.cast<double>()), dout = of(in.dout.cast<double>());
    const Double keys = of(k_sums), values = of(v_sums);
    const double scale = 1 / std::sqrt(double(d));
    Double p = q * keys.transpose() * scale, ds = dout * values.transpose();
    for (std::int64_t t = 0; t < p.rows(); ++t) {
      p.row(t) = normalised(p.row(t), 1);
      const double mean = p.row(t).dot(ds.row(t));
      ds.row(t) = scale * p.row(t).cwiseProduct((ds.row(t).array() - mean).matrix());
    }
    r.o.middleCols(head * d, d) = (p * values).cast<float>();
    r.dq.middleCols(head * d, d) = (ds * keys).cast<float>();
    dk_sums.middleCols(head * d, d) = ds.transpose() * q;
    dv_sums.middleCols(head * d, d) = p.transpose() * dout;
  }
  const auto rows = [&](const Double& all) -> Mat {
    Mat some = Mat::Zero(in.k.rows(), kWidth);
    some(at, Eigen::all) = all.cast<float>();
    return some;
  };
  r.dk = rows(es.transpose() * dk_sums);
  r.dv = rows(fs.transpose() * dv_sums);
  r.de = Mat::Zero(rank, e.cols());
  r.df = r.de;
  r.de.leftCols(n) = (dk_sums * k.transpose()).cast<float>();
  r.df.leftCols(n) = (dv_sums * v.transpose()).cast<float>();
  return r;
}

TEST(LinformerAttentionTest, DefinedGradientsAreSlopes) {
  constexpr std::int64_t kLength = 7, kRank = 4, d = kWidth / kHeads;
  const AttentionInput in(kLength, kLength, kWidth);
  const Mat e = random_mat(kRank, kLength, 5), f = random_mat(kRank, kLength, 6);
  // What is seen takes the first columns of both matrices.
  const std::vector<std::uint8_t> seen = {1, 0, 1, 1, 0, 1, 1};
  const std::vector<std::int64_t> at = {0, 2, 3, 5, 6};
  const Result defined = define_linformer(in, e, f, seen);
  Double de = e.cast<double>(), df = f.cast<double>();
  const auto o = [&](const Double& q, const Double& k, const Double& v) {
    const Double keys = de.leftCols(5) * k(at, Eigen::all);
    const Double values = df.leftCols(5) * v(at, Eigen::all);
    Double all(kLength, kWidth);
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto of = [&](const Double& m) -> Double { return m.middleCols(head * d, d); };
      all.middleCols(head * d, d) = attention_weights(of(q), of(keys), {}, 1, nullptr) * of(values);
    }
    return all;
  };
  expect_slopes(defined, in, o);
  const Double q = in.q.cast<double>(), k = in.k.cast<double>(), v = in.v.cast<double>();
  const auto loss = [&] { return o(q, k, v).cwiseProduct(in.dout.cast<double>()).sum(); };
  expect_close(defined.de, slopes_along(de, loss), "de");
  expect_close(defined.df, slopes_along(df, loss), "df");
}

TEST(LinformerAttentionTest, IsTheDefinition) {
  for (const std::int64_t rank : {1, 7, 100}) {
    for (const std::int64_t length : {2, 60, 90}) {
      for (const bool is_padded : {false, true}) {
        if (is_padded && length < 10) continue;
        SCOPED_TRACE(std::to_string(rank) + " sums, length " + std::to_string(length) +
                     (is_padded ? ", padded" : ""));
        // Shorter sequences take the first columns.
        auto held = layer_of(config(rank, 90));
        std::vector<std::uint8_t> seen(std::size_t(length), 1);
        for (std::int64_t j = 0; is_padded && j < length; ++j) seen[std::size_t(j)] = j % 5 != 3;
        const AttentionInput in(length, length, kWidth);
        const Result expected =
            define_linformer(in, held.parameter("e").matrix(), held.parameter("f").matrix(), seen);
        AttentionResult ours = run_attention(*held.layer, training_pass(), in,
                                             {.keys = is_padded ? seen.data() : nullptr});
        // One sum leaves nothing to choose.
        if (rank == 1) {
          EXPECT_LT(ours.dq.cwiseAbs().maxCoeff() + ours.dk.cwiseAbs().maxCoeff(), 1e-5f);
          expect_close(ours.o, expected.o, "o");
          expect_close(ours.dv, expected.dv, "dv");
          continue;
        }
        expect_same(ours, expected);
        expect_close(held.gradient("e"), expected.de, "de");
        expect_close(held.gradient("f"), expected.df, "df");
      }
    }
  }
}

TEST(LinformerAttentionTest, SharedMatricesLearnFromBoth) {
  auto shared = layer_of(config(6, 40, "key_value"));
  ASSERT_EQ(shared.parameters.size(), 1u);
  const Mat e = shared.parameter("e").matrix();
  const AttentionInput in(40, 40, kWidth);
  const Result expected = define_linformer(in, e, e, std::vector<std::uint8_t>(40, 1));
  expect_same(run_attention(*shared.layer, training_pass(), in, {}), expected);
  expect_close(shared.gradient("e"), expected.de + expected.df, "de");
}

TEST(LinformerAttentionTest, AnIdentityMakesItFull) {
  const std::int64_t length = 130;
  auto held = layer_of(config(length, length));
  for (const char* name : {"e", "f"}) {
    Parameter& p = held.parameter(name);
    Eigen::Map<Mat>(p.values(), length, length).setIdentity();
  }
  const AttentionInput in(length, length, kWidth);
  expect_same(run_attention(*held.layer, training_pass(), in, {}),
              run_attention(FullAttention(config(1, 1)), training_pass(), in, {}));
}

TEST(LinformerAttentionTest, BatchOfTwoIsTwoSingles) {
  const std::int64_t length = 33;
  auto held = layer_of(config(8, 50));
  const AttentionInput in(2 * length, 2 * length, kWidth);
  std::vector<std::uint8_t> seen(std::size_t(2 * length), 1);
  for (std::size_t i = 0; i < seen.size(); i += 4) seen[i] = 0;
  const AttentionResult both =
      run_attention(*held.layer, training_pass(2), in, {.keys = seen.data()});
  const Mat de = held.gradient("e");
  held.zero_gradients();
  for (const std::int64_t first : {std::int64_t(0), length}) {
    AttentionInput one(length, length, kWidth);
    one.q = in.q.middleRows(first, length);
    one.k = in.k.middleRows(first, length);
    one.v = in.v.middleRows(first, length);
    one.dout = in.dout.middleRows(first, length);
    const AttentionResult single =
        run_attention(*held.layer, training_pass(), one, {.keys = seen.data() + first});
    expect_close(single.o, both.o.middleRows(first, length), "o");
    expect_close(single.dk, both.dk.middleRows(first, length), "dk");
    expect_close(single.dv, both.dv.middleRows(first, length), "dv");
  }
  expect_close(held.gradient("e"), de, "de");
}

TEST(LinformerAttentionTest, PaddingIsNotSeen) {
  const std::int64_t length = 50;
  auto held = layer_of(config(8, length));
  AttentionInput in(length, length, kWidth);
  std::vector<std::uint8_t> seen(std::size_t(length), 1);
  for (std::size_t j = 0; j < seen.size(); j += 3) seen[j] = 0;
  const AttentionMask mask{.keys = seen.data()};
  const AttentionResult before = run_attention(*held.layer, training_pass(), in, mask);
  for (std::int64_t j = 0; j < length; j += 3) {
    in.k.row(j).setConstant(1000);
    in.v.row(j).setConstant(1000);
    EXPECT_TRUE(before.dk.row(j).isZero(0) && before.dv.row(j).isZero(0));
  }
  const AttentionResult after = run_attention(*held.layer, training_pass(), in, mask);
  EXPECT_TRUE(after.o == before.o && after.dq == before.dq);
  // Nothing but padding is zero.
  std::fill(seen.begin(), seen.end(), std::uint8_t(0));
  EXPECT_TRUE(run_attention(*held.layer, training_pass(), in, mask).o.isZero(0));
}

TEST(LinformerAttentionTest, ThreadsAndRepetitionChangeNothing) {
  auto held = layer_of(config(8, 90));
  const AttentionInput in(2 * 90, 2 * 90, kWidth);
  Pass pass = training_pass(2);
  pass.dropout = 0.2f;
  set_gemm_threads(1);
  const AttentionResult one = run_attention(*held.layer, pass, in, {});
  const AttentionResult twice = run_attention(*held.layer, pass, in, {}, 2);
  set_gemm_threads(3);
  const AttentionResult three = run_attention(*held.layer, pass, in, {});
  set_gemm_threads(1);
  EXPECT_TRUE(one.o == twice.o && one.dq == twice.dq && one.dk == twice.dk && one.dv == twice.dv);
  expect_same(three, one);
}

/// Weights of a model that only evaluates may be stored in fewer bits.
TEST(LinformerAttentionTest, StoredWeightsAreConverted) {
  const Held<SelfAttention> half(make_attention("linformer", config(8, 40)), WeightType::bf16);
  auto exact = layer_of(config(8, 40));
  half.layer->visit_parameters([&](Parameter& from) {
    Parameter& to = exact.parameter(from.name);
    for (std::int64_t i = 0; i < from.rows; ++i) {
      for (std::int64_t j = 0; j < from.cols; ++j) to.set(i, j, from.get(i, j));
    }
  });
  const AttentionInput in(33, 33, kWidth);
  expect_close(half.layer->forward(in.q, in.k, in.v, false),
               exact.layer->forward(in.q, in.k, in.v, false), "o");
}

TEST(LinformerAttentionTest, WhatItCannotDoIsNamed) {
  auto held = layer_of(config(8, 40));
  const AttentionInput in(41, 41, kWidth), short_enough(40, 40, kWidth);
  expect_mentions(message_of([&] { held.layer->forward(in.q, in.k, in.v, false); }),
                  {"41", "40", "linformer", "raise linformer_length"});
  EXPECT_EQ(message_of([&] {
              held.layer->forward(short_enough.q, short_enough.k, short_enough.v, false);
            }),
            "no error");
  expect_mentions(message_of([&] {
                    held.layer->forward(short_enough.q, short_enough.k, short_enough.v, true);
                  }),
                  {"linformer", "causal", "masked", "another attention"});
  expect_mentions(message_of([&] { held.layer->make_cache(1, 10); }), {"linformer", "decode"});
  expect_mentions(message_of([&] { require_causal(config(8, 40)); }),
                  {"attention linformer", "full, lsh, window", "masked"});
  EXPECT_EQ(message_of([&] { require_causal(ModelConfig()); }), "no error");
  // Before training begins.
  ModelConfig model = config_of_shape("tiny");
  model.encoder_layers = 0;
  model.attention = "linformer";
  TrainConfig train;
  train.length = 16;
  const auto fit = [&](const char* task) {
    train.task = task;
    return message_of([&] { require_fit(train, needs_of(train), model); });
  };
  expect_mentions(fit("causal"), {"attention linformer", "masked"});
  EXPECT_EQ(fit("masked"), "no error");
  expect_mentions(message_of([&] { validate(config(0, 40)); }), {"linformer_rank 0"});
  expect_mentions(message_of([&] { validate(config(3, -1)); }), {"linformer_length -1"});
  ModelConfig c = config(1, 1);
  EXPECT_THROW(set_field(c, "linformer_sharing", "layerwise"), UserError);
}

/// Parameters of a model carry their branch's name; as many positions as the model has, unless
/// said.
TEST(LinformerAttentionTest, ItsMatricesAreTheModels) {
  ModelConfig c = config_of_shape("tiny");
  c.encoder_layers = 0;
  c.decoder_layers = 2;
  c.attention = "linformer";
  set_field(c, "linformer_rank", 3);
  const auto count = [](const ModelConfig& config) {
    return Transformer(config).parameter_count();
  };
  ModelConfig full = c;
  full.attention = "full";
  EXPECT_EQ(count(c) - count(full), 2 * 2 * 3 * c.max_length);
  set_field(c, "linformer_length", 10);
  EXPECT_EQ(count(c) - count(full), 2 * 2 * 3 * 10);
  set_field(c, "linformer_sharing", "key_value");
  EXPECT_EQ(count(c) - count(full), 2 * 3 * 10);
  Transformer model(c);
  int found = 0;
  for (const Parameter* p : model.parameters()) {
    found += p->name == "decoder.0.attention.e" || p->name == "decoder.1.attention.e";
  }
  EXPECT_EQ(found, 2);
}

// -- cross-attention ------------------------------------------------------------------------------

TrainedLayer<CrossAttention> cross_layer_of(const ModelConfig& c) {
  return TrainedLayer<CrossAttention>(make_cross_attention("linformer", c));
}

TEST(LinformerCrossAttentionTest, IsTheDefinition) {
  for (const std::int64_t queries : {1, 5, 70}) {
    for (const std::int64_t keys : {3, 60}) {
      for (const bool is_behind : {false, true}) {
        SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) +
                     " keys, padding " + (is_behind ? "behind" : "between"));
        auto held = cross_layer_of(config(7, 60));
        std::vector<std::uint8_t> seen(std::size_t(keys), 1);
        for (std::int64_t j = 0; j < keys; ++j) {
          seen[std::size_t(j)] = is_behind ? j < keys - keys / 3 : j % 4 != 1;
        }
        const AttentionInput in(queries, keys, kWidth);
        const Result expected =
            define_linformer(in, held.parameter("e").matrix(), held.parameter("f").matrix(), seen);
        const AttentionMask mask{.keys = seen.data()};
        expect_same(run_attention(*held.layer, training_pass(), in, mask), expected);
        expect_close(held.gradient("e"), expected.de, "de");
        expect_close(held.gradient("f"), expected.df, "df");
      }
    }
  }
}

TEST(LinformerCrossAttentionTest, AnIdentityMakesItFull) {
  const std::int64_t keys = 40;
  auto held = cross_layer_of(config(keys, keys));
  for (const char* name : {"e", "f"}) {
    Eigen::Map<Mat>(held.parameter(name).values(), keys, keys).setIdentity();
  }
  const AttentionInput in(9, keys, kWidth);
  expect_same(run_attention(*held.layer, training_pass(), in, {}),
              run_attention(FullCrossAttention(config(1, 1)), training_pass(), in, {}));
}

TEST(LinformerCrossAttentionTest, ATokenReadsTheSumsHoweverLongTheSource) {
  const auto held = cross_layer_of(config(8, 4096));
  const Cost cost = held.layer->step_cost(2, 4096);
  EXPECT_EQ(total(cost).bytes, 2 * 2 * 8 * kWidth * 4);
  EXPECT_EQ(total(held.layer->step_cost(2, 100)).bytes, total(cost).bytes);
  EXPECT_EQ(held.layer->cache_bytes(2, 4096), held.layer->cache_bytes(2, 100));
}

TEST(LinformerCrossAttentionTest, ComputesWhatItSays) {
  const std::int64_t rank = 16, queries = 30, keys = 70;
  auto held = cross_layer_of(config(rank, 90));
  const AttentionInput in(queries, keys, kWidth);
  const AttentionWork work = held.layer->work(queries, keys);
  Pass pass{.gemm = counted_gemm(), .training = true};
  const auto kept = held.layer->make_activations();
  AttentionResult r;
  multiplied_flops = 0;
  held.layer->forward(pass, in.q, in.k, in.v, {}, *kept, r.o);
  // Scores and what they mix are tiles' products, no library's.
  const double of_tiles = 4.0 * double(queries * rank * kWidth);
  EXPECT_EQ(double(multiplied_flops) + of_tiles, work.forward_flops(kWidth / kHeads));
}

/// In a model: parameters of its branch, a source that is too long refused by name, whether it is
/// decoded or trained on.
TEST(LinformerCrossAttentionTest, IsAPartOfAModel) {
  ModelConfig c = config_of_shape("tiny");
  c.encoder_layers = c.decoder_layers = 1;
  const std::int64_t full = Transformer(c).parameter_count();
  c.cross_attention = "linformer";
  set_field(c, "linformer_rank", 3);
  set_field(c, "linformer_length", 10);
  EXPECT_EQ(Transformer(c).parameter_count() - full, 2 * 3 * 10);
  EXPECT_EQ(message_of([&] { require_causal(c); }), "no error");
  Team team(1);
  Transformer model(c);
  model.allocate(team);
  const auto decode = [&](std::int64_t source) {
    return message_of([&] { Decoder(model, find_kernel_set("simd"), team, 1, 5, source); });
  };
  EXPECT_EQ(decode(10), "no error");
  expect_mentions(decode(11), {"11", "10", "linformer", "raise linformer_length"});
  const auto held = cross_layer_of(c);
  const AttentionInput in(3, 11, c.d_model);
  expect_mentions(message_of([&] { held.layer->forward(in.q, in.k, in.v); }),
                  {"11", "10", "linformer"});
  expect_mentions(message_of([&] {
                    c.cross_attention = "lsh";
                    validate(c);
                  }),
                  {"cross_attention", "lsh", "full", "linformer"});
}

// -- prices ---------------------------------------------------------------------------------------

TEST(LinformerAttentionTest, ComputesWhatItSays) {
  const std::int64_t rank = 16, length = 70;
  auto held = layer_of(config(rank, 90));
  const AttentionInput in(length, length, kWidth);
  const AttentionWork work = held.layer->work(length, false);
  EXPECT_EQ(work.pairs, 0);
  const Gemm& gemm = counted_gemm();
  Pass pass{.gemm = gemm, .training = true};
  const auto kept = held.layer->make_activations();
  AttentionResult r;
  // Scores and what they mix are tiles' products, no library's: two forward, four backward.
  const double of_tiles = 2.0 * double(length * rank * kWidth);
  const double forward_flops = work.forward_flops(kWidth / kHeads);
  multiplied_flops = 0;
  held.layer->forward(pass, in.q, in.k, in.v, {}, *kept, r.o);
  EXPECT_EQ(double(multiplied_flops), forward_flops - 2 * of_tiles);
  multiplied_flops = 0;
  held.layer->backward(pass, in.q, in.k, in.v, {}, *kept, in.dout, r.dq, r.dk, r.dv);
  EXPECT_EQ(double(multiplied_flops),
            work.step_flops(kWidth / kHeads) - forward_flops - 4 * of_tiles);
}

/// One head of 64 at 4096 positions, 256 sums.
TEST(LinformerAttentionTest, CostsAFewPercentOfFull) {
  ModelConfig c = config(256, 4096);
  c.d_model = 64;
  c.n_heads = 1;
  const double flops = make_attention("linformer", c)->work(4096, false).forward_flops(64);
  EXPECT_NEAR(flops, 0.537e9, 0.0005e9);
  EXPECT_EQ(make_attention("full", c)->work(4096, false).forward_flops(64), 8 * flops);
}

#ifdef SCALING_COUNTS_ALLOCATIONS

TEST(LinformerAttentionTest, ActivationsWeighWhatTheySay) {
  set_gemm_threads(1);
  auto t = layer_of(config(16, 800));
  const auto held = [&](std::int64_t examples) {
    const std::int64_t length = 800;
    const AttentionInput in(examples * length, examples * length, kWidth);
    const auto kept = t.layer->make_activations();
    const std::int64_t before = live_bytes();
    Pass pass = training_pass(examples);
    AttentionResult r;
    t.layer->forward(pass, in.q, in.k, in.v, {}, *kept, r.o);
    t.layer->backward(pass, in.q, in.k, in.v, {}, *kept, in.dout, r.dq, r.dk, r.dv);
    r = {};
    return double(live_bytes() - before) / sizeof(float);
  };
  held(1);  // what stays for good is there
  const double said = 800 * t.layer->activation_floats();
  EXPECT_NEAR((held(12) - held(2)) / 10, said, 0.03 * said);
}

#endif

}  // namespace
}  // namespace scaling
