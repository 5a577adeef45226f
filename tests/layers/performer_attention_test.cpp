// Attention by random features, against its definition as a masked square of weights in plain
// double precision, and its estimate of softmax's kernel against what is known of its moments.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/performer.h"
#include "tests/gemms.h"
#include "tests/layers/attention_definition.h"
#include "tests/models/live_bytes.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr std::int64_t kHeads = 3, kWidth = 24, kChunk = PerformerCall::kChunk;

ModelConfig config(std::int64_t features = 20) {
  ModelConfig c;
  c.d_model = kWidth;
  c.n_heads = kHeads;
  c.attention = "performer";
  set_field(c, "performer_features", features);
  return c;
}

/// As in evaluation, but with a backward.
ModelConfig fixed_config(std::int64_t features = 20) {
  ModelConfig c = config(features);
  set_field(c, "performer_redraw", "never");
  return c;
}

/// f(x) of every row: exp(-|x|^2 / 2) (e^(w_1 . x), ..., e^(w_m . x)) / sqrt(m).
Double features_of(const Double& x, const Double& w) {
  Double f = (x * w.transpose()).array().exp().matrix();
  for (std::int64_t i = 0; i < x.rows(); ++i) f.row(i) *= std::exp(-x.row(i).squaredNorm() / 2);
  return f / std::sqrt(double(w.rows()));
}

/// Gradient of x from that of its features.
Double features_backward(const Double& x, const Double& w, const Double& f, const Double& df) {
  const Double dexponents = df.cwiseProduct(f);
  Double dx = dexponents * w;
  for (std::int64_t i = 0; i < x.rows(); ++i) dx.row(i) -= dexponents.row(i).sum() * x.row(i);
  return dx;
}

/// One example. directions: of all heads, one below the other.
AttentionResult define_performer(const AttentionInput& in, const Mat& directions,
                                 const AttentionMask& mask) {
  const std::int64_t n = in.q.rows(), d = in.q.cols() / kHeads, m = directions.rows() / kHeads;
  AttentionResult r{Mat(n, kWidth), Mat(n, kWidth), Mat(n, kWidth), Mat(n, kWidth)};
  const double scale = std::pow(double(d), -0.25);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const auto of = [&](const Mat& all) -> Double {
      return all.middleCols(head * d, d).cast<double>();
    };
    const Double w = directions.middleRows(head * m, m).cast<double>();
    const Double q = of(in.q) * scale, k = of(in.k) * scale, v = of(in.v), dout = of(in.dout);
    const Double fq = features_of(q, w), fk = features_of(k, w);
    Double weights = fq * fk.transpose();
    for (std::int64_t t = 0; t < n; ++t) {
      for (std::int64_t j = 0; j < n; ++j) {
        if ((mask.causal && j > t) || (mask.keys && !mask.keys[j])) weights(t, j) = 0;
      }
    }
    Double o = weights * v, dweights = dout * v.transpose(), p = weights;
    for (std::int64_t t = 0; t < n; ++t) {
      const double sum = weights.row(t).sum();
      if (sum == 0) {
        dweights.row(t).setZero();
        continue;
      }
      o.row(t) /= sum;
      p.row(t) /= sum;
      const double mean = dout.row(t).dot(o.row(t));
      for (std::int64_t j = 0; j < n; ++j) {
        dweights(t, j) = weights(t, j) > 0 ? (dweights(t, j) - mean) / sum : 0;
      }
    }
    const auto put = [&](const Double& from, Mat& to) {
      to.middleCols(head * d, d) = from.cast<float>();
    };
    put(o, r.o);
    put(features_backward(q, w, fq, dweights * fk) * scale, r.dq);
    put(features_backward(k, w, fk, dweights.transpose() * fq) * scale, r.dk);
    put(p.transpose() * dout, r.dv);
  }
  return r;
}

TEST(PerformerAttentionTest, DefinedGradientsAreSlopes) {
  const Mat directions = PerformerAttention(fixed_config()).fixed_directions();
  const std::int64_t m = directions.rows() / kHeads, d = kWidth / kHeads;
  const std::vector<std::uint8_t> seen = {0, 1, 1, 0, 1, 1, 1};
  for (const bool causal : {false, true}) {
    const AttentionInput in(7, 7, kWidth);
    const AttentionMask mask{causal, seen.data()};
    expect_slopes(define_performer(in, directions, mask), in,
                  [&](const Double& q, const Double& k, const Double& v) {
                    Double o(7, kWidth);
                    for (std::int64_t head = 0; head < kHeads; ++head) {
                      const Double w = directions.middleRows(head * m, m).cast<double>();
                      const auto features = [&](const Double& all) {
                        return features_of(all.middleCols(head * d, d) * std::pow(double(d), -0.25),
                                           w);
                      };
                      const Double p = features(q) * features(k).transpose();
                      for (std::int64_t t = 0; t < 7; ++t) {
                        Eigen::RowVectorXd mixed = Eigen::RowVectorXd::Zero(d);
                        double sum = 0;
                        for (std::int64_t j = 0; j < (causal ? t + 1 : 7); ++j) {
                          if (!seen[std::size_t(j)]) continue;
                          mixed += p(t, j) * v.row(j).segment(head * d, d);
                          sum += p(t, j);
                        }
                        o.row(t).segment(head * d, d) = sum > 0 ? mixed / sum : mixed;
                      }
                    }
                    return o;
                  });
  }
}

TEST(PerformerAttentionTest, IsTheDefinition) {
  for (const std::int64_t features : {5, 20}) {
    const PerformerAttention layer(fixed_config(features));
    const Mat directions = layer.fixed_directions();
    for (const std::int64_t length :
         {std::int64_t(2), kChunk - 1, kChunk, kChunk + 1, 2 * kChunk, 3 * kChunk + 7}) {
      for (const bool causal : {false, true}) {
        for (const bool is_padded : {false, true}) {
          if (is_padded && length < 10) continue;
          SCOPED_TRACE(std::to_string(features) + " features, length " + std::to_string(length) +
                       (causal ? ", causal" : "") + (is_padded ? ", padded" : ""));
          std::vector<std::uint8_t> seen(std::size_t(length), 1);
          // The first keys too, of long sequences the whole first chunk: under a causal mask the
          // first queries see nothing.
          const std::int64_t first = length > 2 * kChunk ? kChunk + 5 : 2;
          for (std::int64_t j = 0; is_padded && j < length; ++j) {
            seen[std::size_t(j)] = j >= first && j % 5 != 3;
          }
          const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
          const AttentionInput in(length, length, kWidth);
          expect_same(run_attention(layer, training_pass(), in, mask),
                      define_performer(in, directions, mask));
        }
      }
    }
  }
}

/// Each chunk's first key is e^-40 of a later one, which must not hide it from the first query.
TEST(PerformerAttentionTest, RisingExponentsEndChunks) {
  for (const std::int64_t length : {40, 200}) {
    AttentionInput in(length, length, kWidth);
    for (std::int64_t t = 0; t < length; ++t) in.k.row(t) *= 8 * (1 - float(t) / float(length));
    const PerformerAttention layer(fixed_config());
    for (const bool causal : {false, true}) {
      const AttentionResult ours = run_attention(layer, training_pass(), in, {.causal = causal});
      const AttentionResult expected =
          define_performer(in, layer.fixed_directions(), {.causal = causal});
      // Exponents of a hundred are known to 1e-5.
      EXPECT_LT((ours.o - expected.o).norm(), 1e-4f * expected.o.norm()) << causal;
      EXPECT_LT((ours.dq - expected.dq).norm(), 3e-4f * expected.dq.norm()) << causal;
      EXPECT_LT((ours.dk - expected.dk).norm(), 3e-4f * expected.dk.norm()) << causal;
      EXPECT_LT((ours.dv - expected.dv).norm(), 1e-4f * expected.dv.norm()) << causal;
    }
    const Mat o = layer.forward(in.q, in.k, in.v, true);
    EXPECT_LT((decode_attention(layer, in) - o).norm(), 1e-4f * o.norm());
  }
}

TEST(PerformerAttentionTest, EveryLibraryAgrees) {
  const AttentionInput in(150, 150, kWidth);
  const PerformerAttention layer(fixed_config());
  const AttentionResult expected = define_performer(in, layer.fixed_directions(), {.causal = true});
  for (const Gemm& gemm : gemms()) {
    SCOPED_TRACE(gemm.name);
    expect_same(run_attention(layer, Pass{.gemm = gemm, .training = true}, in, {.causal = true}),
                expected);
  }
}

TEST(PerformerAttentionTest, ThreadsAndRepetitionChangeNothing) {
  const AttentionInput in(2 * 90, 2 * 90, kWidth);
  const PerformerAttention layer(config());
  set_gemm_threads(1);
  const AttentionResult one = run_attention(layer, training_pass(2), in, {.causal = true});
  set_gemm_threads(3);
  const AttentionResult three = run_attention(layer, training_pass(2), in, {.causal = true}, 2);
  set_gemm_threads(1);
  EXPECT_TRUE(one.o == three.o && one.dq == three.dq && one.dk == three.dk && one.dv == three.dv);
}

TEST(PerformerAttentionTest, BatchOfTwoIsTwoSingles) {
  const std::int64_t length = 70;
  const AttentionInput in(2 * length, 2 * length, kWidth);
  const PerformerAttention layer(config());
  for (const bool causal : {false, true}) {
    const AttentionResult both = run_attention(layer, training_pass(2), in, {.causal = causal});
    for (const std::int64_t first : {std::int64_t(0), length}) {
      AttentionInput one(length, length, kWidth);
      one.q = in.q.middleRows(first, length);
      one.k = in.k.middleRows(first, length);
      one.v = in.v.middleRows(first, length);
      one.dout = in.dout.middleRows(first, length);
      const AttentionResult single = run_attention(layer, training_pass(), one, {.causal = causal});
      EXPECT_TRUE(single.o == both.o.middleRows(first, length));
      EXPECT_TRUE(single.dq == both.dq.middleRows(first, length));
      EXPECT_TRUE(single.dk == both.dk.middleRows(first, length));
      EXPECT_TRUE(single.dv == both.dv.middleRows(first, length));
    }
  }
}

TEST(PerformerAttentionTest, PaddingIsNotSeen) {
  const std::int64_t length = 100;
  AttentionInput in(length, length, kWidth);
  const PerformerAttention layer(fixed_config());
  std::vector<std::uint8_t> seen(std::size_t(length), 1);
  for (std::int64_t j = 0; j < length; ++j) seen[std::size_t(j)] = j > 1 && j % 7 != 2;
  for (const bool causal : {false, true}) {
    const AttentionMask mask{causal, seen.data()};
    const AttentionResult before = run_attention(layer, training_pass(), in, mask);
    for (std::int64_t j = 0; j < length; ++j) {
      if (seen[std::size_t(j)]) continue;
      in.k.row(j) *= 3;
      in.v.row(j).setConstant(1000);
      EXPECT_TRUE(before.dk.row(j).isZero(0) && before.dv.row(j).isZero(0)) << j;
    }
    const AttentionResult after = run_attention(layer, training_pass(), in, mask);
    EXPECT_TRUE(after.o == before.o && after.dq == before.dq && after.dk == before.dk &&
                after.dv == before.dv);
    if (causal) {
      EXPECT_TRUE(after.o.topRows(2).isZero(0) && after.dq.topRows(2).isZero(0));
    }
  }
  std::fill(seen.begin(), seen.end(), std::uint8_t(0));
  for (const bool causal : {false, true}) {
    const AttentionResult none = run_attention(layer, training_pass(), in, {causal, seen.data()});
    for (const Mat* m : {&none.o, &none.dq, &none.dk, &none.dv}) EXPECT_TRUE(m->isZero(0));
  }
}

/// What comes later changes maxima of its chunk, which cancel: to rounding there, and not at all in
/// chunks before.
TEST(PerformerAttentionTest, LooksAtNoLaterPosition) {
  const std::int64_t length = 2 * kChunk + 20;
  const AttentionInput in(length, length, kWidth);
  const PerformerAttention layer(config());
  const Mat before = layer.forward(in.q, in.k, in.v, true);
  for (const std::int64_t changed :
       {std::int64_t(1), kChunk - 1, kChunk, kChunk + 30, length - 1}) {
    for (const float factor : {-1.0f, 0.01f, 4.0f}) {
      AttentionInput other = in;
      other.q.row(changed) *= factor;
      other.k.row(changed) *= factor;
      other.v.row(changed) *= 100;
      const Mat after = layer.forward(other.q, other.k, other.v, true);
      const Mat difference = after - before;
      EXPECT_LT(difference.topRows(changed).cwiseAbs().maxCoeff(), 2e-5f) << changed;
      EXPECT_TRUE(difference.topRows(changed / kChunk * kChunk).isZero(0)) << changed;
      EXPECT_GT(difference.row(changed).cwiseAbs().maxCoeff(), 1e-2f) << changed;
    }
  }
}

TEST(PerformerAttentionTest, ResultsAreMeansOfValues) {
  AttentionInput in(150, 150, kWidth);
  in.v.setConstant(2.5f);
  for (const bool causal : {false, true}) {
    const Mat o = PerformerAttention(config()).forward(in.q, in.k, in.v, causal);
    EXPECT_LT((o.array() - 2.5f).abs().maxCoeff(), 2e-5f);
  }
}

/// Exponents of thousands, larger and larger or smaller and smaller.
TEST(PerformerAttentionTest, LargeExponentsDoNotOverflow) {
  for (const bool grows : {false, true}) {
    AttentionInput in(200, 200, kWidth);
    in.q *= 300;
    for (std::int64_t t = 0; t < 200; ++t) in.k.row(t) *= 0.2f * float(grows ? t : 200 - t);
    const PerformerAttention layer(fixed_config());
    const float most = 1.0001f * in.v.cwiseAbs().maxCoeff();
    for (const bool causal : {false, true}) {
      const AttentionResult ours = run_attention(layer, training_pass(), in, {.causal = causal});
      EXPECT_TRUE(ours.o.allFinite() && ours.dq.allFinite() && ours.dk.allFinite() &&
                  ours.dv.allFinite())
          << grows << causal;
      EXPECT_LE(ours.o.cwiseAbs().maxCoeff(), most);
    }
    const Mat decoded = decode_attention(layer, in), o = layer.forward(in.q, in.k, in.v, true);
    EXPECT_LE(decoded.cwiseAbs().maxCoeff(), most);
    // float's exponents of thousands are known to a thousandth.
    EXPECT_LT((decoded - o).norm(), 0.02f * o.norm()) << grows;
  }
}

// -- decoding -------------------------------------------------------------------------------------

TEST(PerformerAttentionTest, StepIsForward) {
  for (const std::int64_t features : {5, 20, 256}) {
    const PerformerAttention layer(config(features));
    AttentionInput in(3 * kChunk + 7, 3 * kChunk + 7, kWidth);
    expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true), "as drawn");
    // Maxima that rise all the time.
    for (std::int64_t t = 0; t < in.k.rows(); ++t) in.k.row(t) *= 1 - float(t) / 250;
    expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true), "rising");
  }
}

TEST(PerformerAttentionTest, ACacheHoldsSumsAndForgetsThem) {
  const PerformerAttention layer(config());
  const AttentionInput in(30, 30, kWidth);
  const auto cache = layer.make_cache(1, 30);
  Barrier barrier(1);
  Mat decoded[2] = {Mat(30, kWidth), Mat(30, kWidth)};
  const auto context = [&](std::int64_t t) {
    return StepContext{find_kernel_set("simd"), barrier, 0, 1, 1, t, nullptr};
  };
  for (Mat& o : decoded) {
    for (std::int64_t t = 0; t < 30; ++t) {
      layer.step(context(t), *cache, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(),
                 o.row(t).data());
    }
  }
  EXPECT_TRUE(decoded[0] == decoded[1]);
  // Pretended positions weigh as much as they are.
  Mat o(1, kWidth);
  cache->pretend(context(0), 1000, 7, "some");
  layer.step(context(1000), *cache, in.q.row(0).data(), in.k.row(0).data(), in.v.row(0).data(),
             o.data());
  EXPECT_TRUE(o.allFinite());
  EXPECT_GT((o - in.v.row(0)).cwiseAbs().maxCoeff(), 0.1f);
  EXPECT_LE(o.cwiseAbs().maxCoeff(), 1.71f);

  const std::int64_t d = kWidth / kHeads, m = 20;
  // Of a head the directions; of a head of a token sums, weights and maxima, and what a step makes.
  const std::uint64_t floats = kHeads * m * d + 2 * kHeads * m * (d + 1 + 1 + 2);
  for (const std::int64_t capacity : {1, 100, 1000000}) {
    EXPECT_EQ(layer.cache_bytes(2, capacity), 4 * floats);
  }
}

// -- directions -----------------------------------------------------------------------------------

Mat draw(FeatureDirections kind, std::int64_t m, std::int64_t d, std::int64_t index = 0,
         std::uint64_t seed = 1) {
  Mat w(m, d);
  draw_directions(kind, seed, 10, index, m, d, w.data());
  return w;
}

TEST(FeatureDirectionsTest, BlocksAreAtRightAngles) {
  const std::int64_t d = 24, m = 2 * d + 7;
  for (const auto kind : {FeatureDirections::orthogonal, FeatureDirections::regularised}) {
    const Mat w = draw(kind, m, d);
    for (std::int64_t i = 0; i < m; ++i) {
      if (kind == FeatureDirections::regularised) {
        EXPECT_NEAR(w.row(i).norm(), std::sqrt(double(d)), 1e-5);
      }
      for (std::int64_t j = 0; j < i; ++j) {
        const float cosine = w.row(i).dot(w.row(j)) / (w.row(i).norm() * w.row(j).norm());
        if (i / d == j / d) {
          EXPECT_LT(std::abs(cosine), 2e-6f) << i << " and " << j;
        }
      }
    }
    // From block to block they are not.
    EXPECT_GT((w.topRows(d) * w.middleRows(d, d).transpose()).cwiseAbs().maxCoeff(), 1.0f);
  }
  // One direction of a block of one is the drawn one but for its length.
  EXPECT_EQ(draw(FeatureDirections::orthogonal, 1, 1).rows(), 1);
}

/// Squared lengths are chi-squared with d degrees of freedom: of variance 2 d.
TEST(FeatureDirectionsTest, AreAsLongAsNormalOnes) {
  const std::int64_t d = 13, m = 3000;
  for (const auto kind : {FeatureDirections::orthogonal, FeatureDirections::independent}) {
    const Eigen::VectorXd squares = draw(kind, m, d).cast<double>().rowwise().squaredNorm();
    const double mean = squares.mean(), error = std::sqrt(2.0 * double(d) / double(m));
    EXPECT_NEAR(mean, double(d), 5 * error);
    const double variance = (squares.array() - mean).square().mean();
    EXPECT_NEAR(variance, 2 * double(d), 0.2 * 2 * double(d));
  }
}

TEST(FeatureDirectionsTest, AreOfSeedAndHeadWhateverTheThreads) {
  const Mat w = draw(FeatureDirections::orthogonal, 30, 8);
  EXPECT_TRUE(w == draw(FeatureDirections::orthogonal, 30, 8));
  EXPECT_FALSE(w == draw(FeatureDirections::orthogonal, 30, 8, 1));
  EXPECT_FALSE(w == draw(FeatureDirections::orthogonal, 30, 8, 0, 2));
  const PerformerAttention layer(config());
  set_gemm_threads(3);
  const Mat three = layer.fixed_directions();
  set_gemm_threads(1);
  EXPECT_TRUE(layer.fixed_directions() == three);
  EXPECT_FALSE(three.topRows(20) == three.middleRows(20, 20));
}

TEST(PerformerAttentionTest, TrainingDrawsAnewAndEvaluationDoesNot) {
  const AttentionInput in(40, 40, kWidth);
  const AttentionMask mask{.causal = true};
  const auto result = [&](const PerformerAttention& layer, bool training, std::uint64_t seed) {
    Pass pass = training_pass(1, seed);
    pass.training = training;
    Mat o;
    layer.forward(pass, in.q, in.k, in.v, mask, *layer.make_activations(), o);
    return o;
  };
  const PerformerAttention redrawn(config()), fixed(fixed_config());
  const Mat evaluated = result(redrawn, false, 1);
  EXPECT_TRUE(result(redrawn, false, 2) == evaluated);
  EXPECT_TRUE(result(redrawn, true, 1) == result(redrawn, true, 1));
  EXPECT_FALSE(result(redrawn, true, 1) == result(redrawn, true, 2));
  EXPECT_FALSE(result(redrawn, true, 1) == evaluated);
  EXPECT_TRUE(result(fixed, true, 2) == evaluated);

  // The same activations, in turn: an evaluation between two training steps is its own; a forward
  // that is computed again finds the directions of its stream.
  const auto kept = redrawn.make_activations();
  Pass pass = training_pass(), evaluation = evaluation_pass();
  Mat first, second, again;
  redrawn.forward(pass, in.q, in.k, in.v, mask, *kept, first);
  const Decisions decisions = *kept;
  redrawn.forward(pass, in.q, in.k, in.v, mask, *kept, second);
  EXPECT_FALSE(first == second);
  redrawn.forward(evaluation, in.q, in.k, in.v, mask, *kept, again);
  EXPECT_TRUE(again == evaluated);
  static_cast<Decisions&>(*kept) = decisions;
  pass.recomputes = true;
  redrawn.forward(pass, in.q, in.k, in.v, mask, *kept, again);
  EXPECT_TRUE(again == first);
}

// -- the estimate ---------------------------------------------------------------------------------

struct Moments {
  double mean, square_error;
};

/// Of f(x) . f(y), over many draws of m directions.
Moments moments_of(FeatureDirections kind, const Eigen::RowVectorXd& x, const Eigen::RowVectorXd& y,
                   std::int64_t m, std::int64_t draws) {
  const double exact = std::exp(x.dot(y));
  Moments all{0, 0};
  for (std::int64_t i = 0; i < draws; ++i) {
    const Double w = draw(kind, m, x.size(), i).cast<double>();
    const double estimate = features_of(x, w).row(0).dot(features_of(y, w).row(0));
    all.mean += estimate / double(draws);
    all.square_error += (estimate - exact) * (estimate - exact) / double(draws);
  }
  return all;
}

/// Choromanski et al., Rethinking Attention with Performers: lemma 2 and theorem 2.
TEST(FeatureDirectionsTest, EstimatesHaveTheKnownMoments) {
  const std::int64_t d = 16, m = 16, draws = 20000;
  Eigen::RowVectorXd x = random_mat(1, d, 1).cast<double>(), y = random_mat(1, d, 2).cast<double>();
  const double shrink = std::sqrt(0.5) / (x + y).norm();
  x *= shrink;
  y *= shrink;
  const double z = (x + y).squaredNorm(), kernel = std::exp(x.dot(y));
  const double independent = std::exp(z) * kernel * kernel * (1 - std::exp(-z)) / double(m);
  const double gap = kernel - std::exp(-(x.squaredNorm() + y.squaredNorm()) / 2);
  const double gain = 2 * double(m - 1) / double(m * (d + 2)) * gap * gap;
  const double error = std::sqrt(independent / double(draws));
  const Moments plain = moments_of(FeatureDirections::independent, x, y, m, draws);
  EXPECT_NEAR(plain.mean, kernel, 5 * error);
  // The variance of so many draws is known to 1.3 %.
  EXPECT_NEAR(plain.square_error, independent, 0.06 * independent);
  const Moments orthogonal = moments_of(FeatureDirections::orthogonal, x, y, m, draws);
  EXPECT_NEAR(orthogonal.mean, kernel, 5 * error);
  EXPECT_LT(orthogonal.square_error, (independent - gain) * 1.06);
  EXPECT_LT(orthogonal.square_error, 0.95 * plain.square_error);
  EXPECT_GT(gain, 0.1 * independent);
}

/// With small queries and keys: the variance grows with the exponential of their squares.
TEST(PerformerAttentionTest, ConvergesToSoftmax) {
  AttentionInput in(60, 60, kWidth);
  in.q *= 0.5f;
  in.k *= 0.5f;
  constexpr std::uint64_t kSeeds = 5;
  for (const bool causal : {false, true}) {
    const Mat exact = define_attention(in, kHeads, {.causal = causal}).o;
    std::vector<double> errors;
    for (const std::int64_t features : {64, 1024, 16384}) {
      double squares = 0;
      for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        ModelConfig c = config(features);
        c.seed = seed;
        const Mat o = PerformerAttention(c).forward(in.q, in.k, in.v, causal);
        squares += double((o - exact).squaredNorm() / exact.squaredNorm()) / double(kSeeds);
      }
      errors.push_back(std::sqrt(squares));
    }
    // Four times less at sixteen times the features.
    for (const std::size_t i : {1, 2}) {
      EXPECT_LT(errors[i], 0.4 * errors[i - 1]) << i;
      EXPECT_GT(errors[i], 0.15 * errors[i - 1]) << i;
    }
    EXPECT_LT(errors[2], 0.03);
  }
}

// -- prices ---------------------------------------------------------------------------------------

/// As the sums over earlier positions are defined, one position after another.
double count_of_recurrence(std::int64_t length, std::int64_t m, std::int64_t d) {
  double flops = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t f = 0; f < m; ++f) {
      for (std::int64_t c = 0; c < d; ++c) flops += 2 + 2;  // exponents of the query and the key
      for (std::int64_t c = 0; c < d; ++c) flops += 2 + 2;  // into the sum and from it
      flops += 2 + 2;                                       // the same of the weights
    }
  }
  return flops;
}

TEST(PerformerAttentionTest, ComputesWhatItSays) {
  const std::int64_t m = 20, d = kWidth / kHeads;
  const PerformerAttention layer(config(m));
  const Gemm& gemm = counted_gemm();
  for (const std::int64_t length : {std::int64_t(5), kChunk, 2 * kChunk + 9}) {
    const AttentionInput in(length, length, kWidth);
    const double of_d = double(kHeads * length * m * d),
                 of_width = double(kHeads * length * m) * (d + 1);
    for (const bool causal : {false, true}) {
      const AttentionWork work = layer.work(length, causal);
      EXPECT_EQ(work.pairs, 0);
      EXPECT_EQ(work.forward_flops(d), double(kHeads) * count_of_recurrence(length, m, d));
      // Every product but those with directions and with the ones behind values has two gradients.
      EXPECT_EQ(work.step_flops(d) - work.forward_flops(d), 2 * of_d * 3 + 2 * of_width * 3);
      Pass pass{.gemm = gemm, .training = true};
      const auto kept = layer.make_activations();
      Mat o, dq, dk, dv;
      multiplied_flops = 0;
      layer.forward(pass, in.q, in.k, in.v, {.causal = causal}, *kept, o);
      const double forward = double(multiplied_flops);
      multiplied_flops = 0;
      layer.backward(pass, in.q, in.k, in.v, {.causal = causal}, *kept, in.dout, dq, dk, dv);
      const double backward = double(multiplied_flops);
      if (causal) {
        // Squares of chunks instead of sums; the first chunk meets no sum, the last makes none.
        double squares = 0, ends = 0;
        for (std::int64_t first = 0; first < length; first += kChunk) {
          const double n = double(std::min(kChunk, length - first));
          squares += 2 * n * n * double(m + d + 1);
          if (first == 0) ends += 2 * n * double(m * (d + 1));
          if (first + kChunk >= length) ends += 2 * n * double(m * (d + 1));
        }
        EXPECT_EQ(forward, work.products + double(kHeads) * (squares - ends)) << length;
        continue;
      }
      EXPECT_EQ(forward, work.products) << length;
      // Exponents of queries once more, those of keys twice, and the sums.
      EXPECT_EQ(backward, work.backward_products + 2 * of_d * 3 + 2 * of_width) << length;
    }
  }
}

/// One head of 64 with 256 features: the state is read and written, the directions are read.
TEST(PerformerAttentionTest, AStepCostsTheSameAtEveryLength) {
  ModelConfig c = config(256);
  c.d_model = 64;
  c.n_heads = 1;
  const PerformerAttention layer(c);
  for (const std::int64_t length : {1, 4096, 1000000}) {
    const Phase one = total(layer.step_cost(1, length)), three = total(layer.step_cost(3, length));
    EXPECT_EQ(one.flops, 132096);
    const double directions = 256 * 64 * 4, maxima = 256 * 4;
    EXPECT_EQ(one.bytes, 194.0 * 1024 + maxima);
    EXPECT_EQ(three.flops, 3 * one.flops);
    EXPECT_EQ(three.bytes, directions + 3 * (one.bytes - directions));
  }
}

#ifdef SCALING_COUNTS_ALLOCATIONS

TEST(PerformerAttentionTest, ActivationsWeighWhatTheySay) {
  set_gemm_threads(1);
  const PerformerAttention layer(config(50));
  const auto held = [&](std::int64_t length) {
    const AttentionInput in(length, length, kWidth);
    const auto kept = layer.make_activations();
    const std::int64_t before = live_bytes();
    Pass pass = training_pass();
    AttentionResult r;
    layer.forward(pass, in.q, in.k, in.v, {.causal = true}, *kept, r.o);
    layer.backward(pass, in.q, in.k, in.v, {.causal = true}, *kept, in.dout, r.dq, r.dk, r.dv);
    r = {};
    return double(live_bytes() - before) / sizeof(float);
  };
  held(32 * kChunk);  // what stays for good is there
  const double said = layer.activation_floats();
  EXPECT_NEAR((held(32 * kChunk) - held(16 * kChunk)) / double(16 * kChunk), said, 0.01 * said);
}

#endif

TEST(PerformerAttentionTest, BadKnobsAreNamed) {
  for (const std::int64_t features : {0, -4}) {
    try {
      PerformerAttention::validate(config(features));
      ADD_FAILURE() << features;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("performer_features " + std::to_string(features)),
                std::string::npos)
          << error.what();
    }
  }
  PerformerAttention::validate(config(1));
  ModelConfig c = config();
  EXPECT_THROW(set_field(c, "performer_directions", "nonsense"), UserError);
}

/// Where heads are shared, it has some: what it makes of them is what the whole layer does.
TEST(PerformerAttention, SomeHeadsOfALayerAreWhatTheyAreInAllOfThem) {
  constexpr std::int64_t kHead = kWidth / kHeads, kLength = kChunk + 9;
  for (const ModelConfig& c : {config(), fixed_config()}) {
    const PerformerAttention whole(c);
    PerformerAttention part(c);
    part.take_heads({1, kHeads});
    EXPECT_LT(part.activation_floats(), whole.activation_floats());
    EXPECT_LT(part.cache_bytes(2, kLength), whole.cache_bytes(2, kLength));
    const AttentionInput two(2 * kLength, 2 * kLength, kWidth), one(kLength, kLength, kWidth);
    for (const bool causal : {false, true}) {
      expect_last_heads(part, whole, kHead, training_pass(2), two, {.causal = causal});
    }
    expect_close(decode_attention(part, one).rightCols(kWidth - kHead),
                 decode_attention(whole, one).rightCols(kWidth - kHead), "decode");
  }
}

}  // namespace
}  // namespace scaling
