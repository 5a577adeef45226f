// Attention between paragraphs, against its definition in double precision and exact attention;
// finite differences are in gradient_test.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/inter_paragraph.h"
#include "models/tasks/catalog.h"
#include "models/training/agreement.h"
#include "models/transformer/transformer.h"
#include "tests/helpers.h"
#include "tests/layers/attention_definition.h"
#include "tests/models/live_bytes.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using Seen = std::vector<std::uint8_t>;

constexpr std::int64_t kHeads = 3, kWidth = 24, kHead = kWidth / kHeads;

ModelConfig config(std::int64_t paragraph) {
  ModelConfig c;
  c.d_model = kWidth;
  c.n_heads = kHeads;
  c.attention = "inter_paragraph";
  set_field(c, "paragraph_length", paragraph);
  return c;
}

TrainedLayer<SelfAttention> layer_of(std::int64_t paragraph) {
  return TrainedLayer<SelfAttention>(make_attention("inter_paragraph", config(paragraph)));
}

/// The function itself, one example and one position after another; pool: (heads, d_head).
Double define(const Double& q, const Double& k, const Double& v, const Double& pool,
              std::int64_t paragraph, const Seen& seen) {
  const std::int64_t n = q.rows(), all = (n + paragraph - 1) / paragraph;
  Double o = Double::Zero(n, kWidth);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    Double means[3];
    for (Double& mean : means) mean = Double::Zero(all, kHead);
    std::vector<double> sums(std::size_t(all), 0);
    for (std::int64_t t = 0; t < n; ++t) {
      if (!seen[std::size_t(t)]) continue;
      const auto of = [&](const Double& m) { return m.row(t).segment(head * kHead, kHead); };
      const double weight = std::exp(pool.row(head).dot(of(k)));
      sums[std::size_t(t / paragraph)] += weight;
      means[0].row(t / paragraph) += weight * of(q);
      means[1].row(t / paragraph) += weight * of(k);
      means[2].row(t / paragraph) += weight * of(v);
    }
    for (std::int64_t i = 0; i < all; ++i) {
      for (Double& mean : means) {
        if (sums[std::size_t(i)] > 0) mean.row(i) /= sums[std::size_t(i)];
      }
    }
    for (std::int64_t t = 0; t < n; ++t) {
      if (sums[std::size_t(t / paragraph)] == 0) continue;
      double total = 0;
      Eigen::RowVectorXd context = Eigen::RowVectorXd::Zero(kHead);
      for (std::int64_t i = 0; i < all; ++i) {
        if (sums[std::size_t(i)] == 0) continue;
        const double p =
            std::exp(means[0].row(t / paragraph).dot(means[1].row(i)) / std::sqrt(double(kHead)));
        total += p;
        context += p * means[2].row(i);
      }
      o.row(t).segment(head * kHead, kHead) = context / total;
    }
  }
  return o;
}

struct Result : AttentionResult {
  Mat dpool;
};

/// Gradients by central differences of the definition, of every element.
Result define_result(const AttentionInput& in, const Mat& pool, std::int64_t paragraph,
                     const Seen& seen) {
  Double q = in.q.cast<double>(), k = in.k.cast<double>(), v = in.v.cast<double>();
  Double w = Eigen::Map<const Mat>(pool.data(), kHeads, kHead).cast<double>();
  const Double dout = in.dout.cast<double>();
  const auto loss = [&] { return define(q, k, v, w, paragraph, seen).cwiseProduct(dout).sum(); };
  Result r;
  r.o = define(q, k, v, w, paragraph, seen).cast<float>();
  r.dq = slopes_along(q, loss);
  r.dk = slopes_along(k, loss);
  r.dv = slopes_along(v, loss);
  r.dpool = slopes_along(w, loss);
  return r;
}

Mat dpool_of(TrainedLayer<SelfAttention>& held) {
  return Eigen::Map<const Mat>(held.gradient("pool").data(), kHeads, kHead);
}

/// Whole paragraphs, a last one that is shorter, and padding: here and there, a paragraph's end, a
/// whole paragraph.
TEST(InterParagraphAttentionTest, IsTheDefinition) {
  for (const std::int64_t paragraph : {2, 5, 8}) {
    for (const std::int64_t length : {24, 27}) {
      for (const int padding : {0, 1, 2, 3}) {
        SCOPED_TRACE(std::to_string(paragraph) + " of " + std::to_string(length) + ", padding " +
                     std::to_string(padding));
        Seen seen(std::size_t(length), 1);
        for (std::int64_t j = 0; j < length; ++j) {
          if (padding == 1) seen[std::size_t(j)] = j % 5 != 3;
          if (padding == 2) seen[std::size_t(j)] = j % paragraph < paragraph / 2 + 1;
          if (padding == 3) seen[std::size_t(j)] = j / paragraph != 1;
        }
        auto held = layer_of(paragraph);
        const AttentionInput in(length, length, kWidth);
        const Result expected = define_result(in, held.parameter("pool").matrix(), paragraph, seen);
        const AttentionResult ours = run_attention(*held.layer, training_pass(), in,
                                                   {.keys = padding > 0 ? seen.data() : nullptr});
        expect_same(ours, expected);
        expect_close(dpool_of(held), expected.dpool, "dpool");
      }
    }
  }
}

TEST(InterParagraphAttentionTest, ParagraphsOfOneAreFull) {
  auto held = layer_of(1);
  const AttentionInput in(130, 130, kWidth);
  Pass pass = training_pass();
  pass.dropout = 0.1f;
  const AttentionResult ours = run_attention(*held.layer, pass, in, {});
  const AttentionResult full = run_attention(FullAttention(config(1)), pass, in, {});
  EXPECT_TRUE(ours.o == full.o);
  expect_same(ours, full);
  EXPECT_LT(held.gradient("pool").cwiseAbs().maxCoeff(), 1e-5f);
}

/// One paragraph for all: everybody gets the one mean, whatever it asks.
TEST(InterParagraphAttentionTest, OneParagraphIsItsMean) {
  const std::int64_t length = 20;
  auto held = layer_of(100);
  Parameter& pool = held.parameter("pool");
  for (std::int64_t i = 0; i < pool.cols; ++i) pool.set(0, i, 0);
  const AttentionInput in(length, length, kWidth);
  const AttentionResult ours = run_attention(*held.layer, training_pass(), in, {});
  for (std::int64_t t = 0; t < length; ++t) {
    expect_close(ours.o.row(t), in.v.colwise().mean(), "mean");
  }
  EXPECT_TRUE(ours.dq.isZero(1e-6f));
}

TEST(InterParagraphAttentionTest, PaddingIsNotSeen) {
  const std::int64_t length = 50;
  auto held = layer_of(8);
  AttentionInput in(length, length, kWidth);
  Seen seen(std::size_t(length), 1);
  for (std::size_t j = 0; j < seen.size(); j += 3) seen[j] = 0;
  std::fill_n(seen.begin() + 16, 8, std::uint8_t(0));
  const AttentionMask mask{.keys = seen.data()};
  const AttentionResult before = run_attention(*held.layer, training_pass(), in, mask);
  EXPECT_TRUE(before.o.middleRows(16, 8).isZero(0));
  for (std::int64_t j = 0; j < length; ++j) {
    if (seen[std::size_t(j)]) continue;
    for (Mat* of : {&in.q, &in.k, &in.v}) of->row(j).setConstant(1000);
    for (const Mat* of : {&before.dq, &before.dk, &before.dv}) EXPECT_TRUE(of->row(j).isZero(0));
  }
  const AttentionResult after = run_attention(*held.layer, training_pass(), in, mask);
  EXPECT_TRUE(after.o == before.o && after.dq == before.dq);
  // Nothing but padding is zero.
  std::fill(seen.begin(), seen.end(), std::uint8_t(0));
  const AttentionResult none = run_attention(*held.layer, training_pass(), in, mask);
  for (const Mat* of : {&none.o, &none.dq, &none.dk, &none.dv}) EXPECT_TRUE(of->isZero(0));
}

TEST(InterParagraphAttentionTest, BatchOfTwoIsTwoSingles) {
  const std::int64_t length = 33;
  auto held = layer_of(8);
  const AttentionInput in(2 * length, 2 * length, kWidth);
  Seen seen(std::size_t(2 * length), 1);
  for (std::size_t i = 0; i < seen.size(); i += 4) seen[i] = 0;
  std::fill_n(seen.begin() + length + 8, 8, std::uint8_t(0));
  const AttentionResult both =
      run_attention(*held.layer, training_pass(2), in, {.keys = seen.data()});
  const Mat dpool = held.gradient("pool");
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
    expect_close(single.dq, both.dq.middleRows(first, length), "dq");
    expect_close(single.dk, both.dk.middleRows(first, length), "dk");
    expect_close(single.dv, both.dv.middleRows(first, length), "dv");
  }
  expect_close(held.gradient("pool"), dpool, "dpool");
}

TEST(InterParagraphAttentionTest, ThreadsAndRepetitionChangeNothing) {
  auto held = layer_of(8);
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

TEST(InterParagraphAttentionTest, WhatItCannotDoIsNamed) {
  auto held = layer_of(8);
  const AttentionInput in(40, 40, kWidth);
  expect_mentions(message_of([&] { held.layer->forward(in.q, in.k, in.v, true); }),
                  {"inter_paragraph", "causal", "encoder_attention", "another attention"});
  expect_mentions(message_of([&] { held.layer->make_cache(1, 10); }),
                  {"inter_paragraph", "decode"});
  expect_mentions(message_of([&] { require_causal(config(8)); }),
                  {"attention inter_paragraph", "full, lsh, window", "encoder_attention"});
  ModelConfig of_encoder = config(8);
  of_encoder.attention = "full";
  of_encoder.encoder_attention = "paragraph,inter_paragraph";
  EXPECT_EQ(message_of([&] { require_causal(of_encoder); }), "no error");
  expect_mentions(message_of([&] { validate(config(0)); }), {"paragraph_length 0"});
}

// -- prices ---------------------------------------------------------------------------------------

/// Every product of the definition counted where it is made.
TEST(InterParagraphAttentionTest, ComputesWhatItSays) {
  for (const std::int64_t paragraph : {1, 4, 7, 50}) {
    for (const std::int64_t length : {1, 8, 29}) {
      double flops = 0;
      std::int64_t all = 0;
      for (std::int64_t head = 0; head < kHeads; ++head) {
        all = 0;
        for (std::int64_t first = 0; first < length; first += paragraph, ++all) {
          for (std::int64_t t = first; t < std::min(length, first + paragraph); ++t) {
            flops += 2 * kHead;      // its score
            flops += 3 * 2 * kHead;  // its share of three means
          }
        }
        for (std::int64_t i = 0; i < all; ++i) {
          for (std::int64_t j = 0; j < all; ++j) flops += 2 * 2 * kHead;
        }
      }
      const auto layer = make_attention("inter_paragraph", config(paragraph));
      const AttentionWork work = layer->work(length, false);
      EXPECT_EQ(work.pairs, 0);
      EXPECT_EQ(work.forward_flops(kHead), flops) << paragraph << " of " << length;
      EXPECT_EQ(work.step_flops(kHead), 3 * flops);
    }
  }
}

#ifdef SCALING_COUNTS_ALLOCATIONS

TEST(InterParagraphAttentionTest, ActivationsWeighWhatTheySay) {
  set_gemm_threads(1);
  auto t = layer_of(16);
  const auto held = [&](std::int64_t examples) {
    const std::int64_t length = 2400;  // beside which a head's own buffers are small
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
  const double said = 2400 * t.layer->activation_floats();
  EXPECT_NEAR((held(12) - held(2)) / 10, said, 0.03 * said);
}

#endif

}  // namespace
}  // namespace scaling
