// Attention among positions that hash alike, against its definition in plain double precision
// (paper 4.4); finite differences of it are in gradient_test.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/lsh.h"
#include "tests/helpers.h"
#include "tests/layers/attention_definition.h"
#include "tests/layers/layer_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using Kept = LshAttention::Kept;

constexpr double kSelf = -1e5, kMasked = -1e9;

bool equal(const Mat& a, const Mat& b) { return a == b; }

double dot(const Mat& a, const Mat& b) {
  return a.cast<double>().cwiseProduct(b.cast<double>()).sum();
}

struct Knobs {
  std::int64_t chunk, rounds, buckets, before, after;
  LshGraph graph = LshGraph::chunks;
  LshCount count = LshCount::every_time;
};

ModelConfig config_of(const Knobs& knobs) {
  ModelConfig c = small_config();
  c.attention = "lsh";
  set_field(c, "lsh_chunk", knobs.chunk);
  set_field(c, "lsh_rounds", knobs.rounds);
  set_field(c, "lsh_buckets", knobs.buckets);
  set_field(c, "lsh_chunks_before", knobs.before);
  set_field(c, "lsh_chunks_after", knobs.after);
  set_field(c, "lsh_graph", print_value(knobs.graph));
  set_field(c, "lsh_count", print_value(knobs.count));
  validate(c);
  return c;
}

struct Input {
  Mat q, k, v, dout;
  explicit Input(std::int64_t rows)
      : q(random_mat(rows, small_config().d_model, 60)),
        k(random_mat(rows, small_config().d_model, 61)),
        v(random_mat(rows, small_config().d_model, 62)),
        dout(random_mat(rows, small_config().d_model, 63)) {}
  Input part(std::int64_t first, std::int64_t n) const {
    Input some(n);
    some.q = q.middleRows(first, n);
    some.k = k.middleRows(first, n);
    some.v = v.middleRows(first, n);
    some.dout = dout.middleRows(first, n);
    return some;
  }
};

struct Result {
  Mat o, dq, dk, dv;
};

Result run(const LshAttention& layer, Pass pass, const Input& in, const AttentionMask& mask,
           Kept& kept) {
  Result r;
  layer.forward(pass, in.q, in.k, in.v, mask, kept, r.o);
  layer.backward(pass, in.q, in.k, in.v, mask, kept, in.dout, r.dq, r.dk, r.dv);
  return r;
}

Result run(const LshAttention& layer, Pass pass, const Input& in, const AttentionMask& mask) {
  Kept kept;
  return run(layer, pass, in, mask, kept);
}

Pass evaluation(std::int64_t examples = 1) {
  Pass pass = training_pass(examples);
  pass.training = false;
  return pass;
}

// -- definitions ----------------------------------------------------------------------------------

/// One head's shared projections, and the logits of every pair before masks.
struct Shared {
  Double qk, unit, v;
  Eigen::VectorXd inverse;
  Shared(const Input& in, std::int64_t head) {
    const std::int64_t d = small_config().d_head();
    const auto of = [&](const Mat& m) -> Double {
      return m.middleCols(head * d, d).cast<double>();
    };
    qk = (of(in.q) + of(in.k)) / 2;
    v = of(in.v);
    const double epsilon = 1e-6, width = double(d);
    inverse = ((qk.rowwise().squaredNorm().array() / width + epsilon) * width).rsqrt().matrix();
    unit = inverse.asDiagonal() * qk;
  }
  /// Query t, key j.
  double logit(std::int64_t t, std::int64_t j) const { return qk.row(t).dot(unit.row(j)); }
};

/// Additive masks of the reference.
double penalty(const AttentionMask& mask, std::int64_t t, std::int64_t j) {
  double sum = j == t ? kSelf : 0;
  if (mask.causal && j > t) sum += kMasked;
  if (mask.keys && !mask.keys[j]) sum += kMasked;
  return sum;
}

/// Every position sees all others: what LSH attention approximates, with gradients.
Result exact(const Input& in, const AttentionMask& mask) {
  const ModelConfig c = small_config();
  const std::int64_t d = c.d_head(), length = in.q.rows();
  Result r{Mat(length, c.d_model), Mat(length, c.d_model), {}, Mat(length, c.d_model)};
  for (std::int64_t head = 0; head < c.n_heads; ++head) {
    const Shared s(in, head);
    Double a = s.qk * s.unit.transpose();
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t j = 0; j < length; ++j) a(t, j) += penalty(mask, t, j);
      a.row(t) = (a.row(t).array() - a.row(t).maxCoeff()).exp().matrix().eval();
      a.row(t) /= a.row(t).sum();
    }
    const Double dout = in.dout.middleCols(head * d, d).cast<double>();
    const Double da = dout * s.v.transpose();
    const Eigen::VectorXd mean = a.cwiseProduct(da).rowwise().sum();
    const Double centred = da.colwise() - mean;
    const Double ds = a.cwiseProduct(centred);
    const Double dunit = ds.transpose() * s.qk;
    const Eigen::VectorXd along = s.unit.cwiseProduct(dunit).rowwise().sum();
    const Double across = dunit - along.asDiagonal() * s.unit;
    const Double dqk = ds * s.unit + s.inverse.asDiagonal() * across;
    r.o.middleCols(head * d, d) = (a * s.v).cast<float>();
    r.dq.middleCols(head * d, d) = (dqk / 2).cast<float>();
    r.dv.middleCols(head * d, d) = (a.transpose() * dout).cast<float>();
  }
  r.dk = r.dq;
  return r;
}

TEST(LshAttentionTest, ExactGradientsAreSlopes) {
  constexpr std::int64_t kLength = 6;
  const std::int64_t width = small_config().d_model, d = small_config().d_head();
  const AttentionInput in(kLength, kLength, width);
  Input same(kLength);
  same.q = in.q, same.k = in.k, same.v = in.v, same.dout = in.dout;
  for (const bool causal : {false, true}) {
    const AttentionMask mask{.causal = causal};
    const Result r = exact(same, mask);
    expect_slopes(
        {r.o, r.dq, r.dk, r.dv}, in, [&](const Double& q, const Double& k, const Double& v) {
          Double o(kLength, width);
          for (std::int64_t head = 0; head < small_config().n_heads; ++head) {
            const Double qk = ((q + k) / 2).middleCols(head * d, d);
            Double logits(kLength, kLength);
            for (std::int64_t t = 0; t < kLength; ++t) {
              for (std::int64_t j = 0; j < kLength; ++j) {
                const double size = qk.row(j).squaredNorm() + 1e-6 * double(d);
                logits(t, j) = qk.row(t).dot(qk.row(j)) / std::sqrt(size) + penalty(mask, t, j);
              }
              logits.row(t) = normalised(logits.row(t), 1);
            }
            o.middleCols(head * d, d) = logits * v.middleCols(head * d, d);
          }
          return o;
        });
  }
}

/// Steps 2 to 6 of paper 4.4 for one example, entry by entry. buckets: (heads, rounds, length).
Mat define(const Input& in, const AttentionMask& mask, const Knobs& knobs,
           const std::int32_t* buckets) {
  const ModelConfig c = small_config();
  const std::int64_t d = c.d_head(), length = in.q.rows(), n = knobs.rounds * length;
  Mat o(length, c.d_model);
  for (std::int64_t head = 0; head < c.n_heads; ++head) {
    const Shared s(in, head);
    std::vector<std::pair<std::int64_t, std::int64_t>> sorted;  // (key, position)
    for (std::int64_t round = 0; round < knobs.rounds; ++round) {
      for (std::int64_t t = 0; t < length; ++t) {
        const std::int64_t bucket = buckets[(head * knobs.rounds + round) * length + t];
        sorted.emplace_back(length * (bucket + round * 1000000) + t, t);
      }
    }
    std::sort(sorted.begin(), sorted.end());
    const std::int64_t chunks = (n + knobs.chunk - 1) / knobs.chunk;
    // Whether an entry meets another, and how often a position meets another in all.
    const auto meets = [&](std::int64_t entry, std::int64_t other) {
      const auto [ours, t] = sorted[std::size_t(entry)];
      const auto [theirs, j] = sorted[std::size_t(other)];
      bool in_view = false;
      for (std::int64_t i = -knobs.before; i <= knobs.after; ++i) {
        const std::int64_t chunk = entry / knobs.chunk + i + chunks * (knobs.before + 1);
        in_view |= other / knobs.chunk == chunk % chunks;
      }
      const bool is_alike = ours / length == theirs / length;
      return in_view && (knobs.graph == LshGraph::chunks || is_alike || j == t);
    };
    Double times = Double::Zero(length, length);
    for (std::int64_t entry = 0; entry < n; ++entry) {
      for (std::int64_t other = 0; other < n; ++other) {
        times(sorted[std::size_t(entry)].second, sorted[std::size_t(other)].second) +=
            meets(entry, other);
      }
    }
    std::vector<std::vector<double>> normalizers(static_cast<std::size_t>(length));
    std::vector<std::vector<Eigen::RowVectorXd>> outputs(static_cast<std::size_t>(length));
    for (std::int64_t entry = 0; entry < n; ++entry) {
      const std::int64_t t = sorted[std::size_t(entry)].second;
      double largest = -HUGE_VAL, sum = 0;
      Eigen::RowVectorXd out = Eigen::RowVectorXd::Zero(d);
      for (const bool is_second : {false, true}) {
        for (std::int64_t other = 0; other < n; ++other) {
          if (!meets(entry, other)) continue;
          const std::int64_t j = sorted[std::size_t(other)].second;
          const double taken_off = knobs.count == LshCount::once ? std::log(times(t, j)) : 0;
          const double logit = s.logit(t, j) + penalty(mask, t, j) - taken_off;
          if (!is_second) {
            largest = std::max(largest, logit);
          } else {
            sum += std::exp(logit - largest);
            out += std::exp(logit - largest) * s.v.row(j);
          }
        }
      }
      normalizers[std::size_t(t)].push_back(largest + std::log(sum));
      outputs[std::size_t(t)].emplace_back(out / sum);
    }
    for (std::int64_t t = 0; t < length; ++t) {
      const std::vector<double>& of_rounds = normalizers[std::size_t(t)];
      const double largest = *std::max_element(of_rounds.begin(), of_rounds.end());
      double sum = 0;
      Eigen::RowVectorXd out = Eigen::RowVectorXd::Zero(d);
      for (std::size_t round = 0; round < of_rounds.size(); ++round) {
        sum += std::exp(of_rounds[round] - largest);
        out += std::exp(of_rounds[round] - largest) * outputs[std::size_t(t)][round];
      }
      o.row(t).segment(head * d, d) = (out / sum).cast<float>();
    }
  }
  return o;
}

// -- against definitions --------------------------------------------------------------------------

/// Seen by one chunk, a whole sequence is exact attention with shared queries and keys.
TEST(LshAttentionTest, OneChunkIsExactAttention) {
  for (const std::int64_t length : {1, 2, 37, 150}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::to_string(length) + (causal ? " causal" : ""));
      const Input in(length);
      const AttentionMask mask{.causal = causal};
      const Result expected = exact(in, mask);
      // One round; two whose keys are duplicates; chunks that together are everything.
      for (const Knobs& knobs :
           {Knobs{length, 1, 2, 0, 0}, Knobs{2 * length, 2, 2, 0, 0}, Knobs{1000, 1, 0, 1, 1},
            Knobs{(length + 2) / 3, 1, 4, 1, 1}, Knobs{length, 2, 2, 1, 0}}) {
        SCOPED_TRACE("chunk " + std::to_string(knobs.chunk) + " rounds " +
                     std::to_string(knobs.rounds));
        const LshAttention layer(config_of(knobs));
        const Result ours = run(layer, training_pass(), in, mask);
        expect_close(ours.o, expected.o, "o");
        expect_close(ours.dv, expected.dv, "dv");
        if (length < 3) {
          // Whoever sees one key only learns nothing of its logit.
          EXPECT_LE(ours.dq.cwiseAbs().maxCoeff(), 1e-5f);
          continue;
        }
        expect_close(ours.dq, expected.dq, "dq");
        EXPECT_TRUE(equal(ours.dk, ours.dq));
      }
    }
  }
}

/// The paper's graph where nothing is cut off: a query meets whoever shares a bucket with it in any
/// round, each once, and so does a step of a decode.
TEST(LshAttentionTest, BucketsOnceAreWhoeverSharesOne) {
  const std::int64_t length = 40, rounds = 3;
  for (const std::int64_t buckets : {2, 8}) {
    const Knobs knobs{1000, rounds, buckets, 0, 0, LshGraph::buckets, LshCount::once};
    const LshAttention layer(config_of(knobs));
    const Input in(length);
    Kept kept;
    Pass pass = evaluation();
    Mat o;
    layer.forward(pass, in.q, in.k, in.v, {.causal = true}, kept, o);
    const std::int64_t heads = small_config().n_heads, d = small_config().d_head();
    double pairs = 0;
    for (std::int64_t head = 0; head < heads; ++head) {
      const Shared s(in, head);
      const auto bucket = [&](std::int64_t round, std::int64_t t) {
        return kept.chosen[std::size_t((head * rounds + round) * length + t)];
      };
      for (std::int64_t t = 0; t < length; ++t) {
        double sum = 0;
        Eigen::RowVectorXd expected = Eigen::RowVectorXd::Zero(d);
        for (std::int64_t j = 0; j < t; ++j) {
          std::int64_t times = 0;
          for (std::int64_t round = 0; round < rounds; ++round) {
            times += bucket(round, t) == bucket(round, j);
          }
          pairs += double(times);
          if (times == 0) continue;
          sum += std::exp(s.logit(t, j));
          expected += std::exp(s.logit(t, j)) * s.v.row(j);
        }
        expected = sum > 0 ? Eigen::RowVectorXd(expected / sum) : Eigen::RowVectorXd(s.v.row(t));
        expect_close(o.row(t).segment(head * d, d), expected.cast<float>(), "o");
      }
    }
    EXPECT_EQ(layer.work_of(kept, length, true).pairs, pairs);
    const AttentionInput same = [&] {
      AttentionInput all(length, length, in.q.cols());
      all.q = in.q, all.k = in.k, all.v = in.v;
      return all;
    }();
    expect_close(decode_attention(layer, same), o, "steps");
  }
}

TEST(LshAttentionTest, ManyChunksAreTheDefinition) {
  for (const std::int64_t length : {1, 5, 16, 23, 64}) {
    for (const Knobs& knobs :
         {Knobs{4, 1, 4, 1, 0}, Knobs{4, 3, 6, 1, 0}, Knobs{4, 3, 6, 0, 0}, Knobs{5, 2, 4, 1, 1},
          Knobs{3, 2, 0, 0, 2}, Knobs{1, 2, 8, 2, 1}, Knobs{8, 2, 256, 1, 0},
          Knobs{4, 3, 4, 1, 0, LshGraph::chunks, LshCount::once},
          Knobs{5, 2, 2, 1, 1, LshGraph::buckets},
          Knobs{4, 3, 4, 1, 0, LshGraph::buckets, LshCount::once},
          Knobs{7, 4, 2, 0, 1, LshGraph::buckets, LshCount::once}}) {
      for (const bool causal : {false, true}) {
        for (const bool is_padded : {false, true}) {
          SCOPED_TRACE("length " + std::to_string(length) + " chunk " +
                       std::to_string(knobs.chunk) + " rounds " + std::to_string(knobs.rounds) +
                       (causal ? " causal" : "") + (is_padded ? " padded" : ""));
          std::vector<std::uint8_t> seen(std::size_t(length), 1);
          for (std::int64_t j = 3; is_padded && j < length; ++j) {
            seen[std::size_t(j)] = j % 5 != 3 && j < 50;
          }
          const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
          const Input in(length);
          const LshAttention layer(config_of(knobs));
          Kept kept;
          Mat ours = run(layer, training_pass(), in, mask, kept).o;
          Mat expected = define(in, mask, knobs, kept.chosen.data());
          for (std::int64_t t = 0; t < length; ++t) {
            // Nobody asks what padding sees.
            if (!seen[std::size_t(t)]) ours.row(t).setZero(), expected.row(t).setZero();
          }
          expect_close(ours, expected, "o");
        }
      }
    }
  }
}

// -- hashes ---------------------------------------------------------------------------------------

TEST(LshAttentionTest, BucketsAreTheReferences) {
  const auto sizes = [](const Knobs& knobs, std::int64_t length) {
    const LshHashing h = LshAttention(config_of(knobs)).hashing_of(length);
    return std::pair<std::int64_t, std::int64_t>{h.first, h.second};
  };
  using Sizes = std::pair<std::int64_t, std::int64_t>;
  const Knobs automatic{128, 2, 0, 1, 0};
  EXPECT_EQ(sizes(automatic, 5), (Sizes{2, 1}));
  EXPECT_EQ(sizes(automatic, 1000), (Sizes{14, 1}));
  EXPECT_EQ(sizes(automatic, 8192), (Sizes{128, 1}));
  EXPECT_EQ(sizes(automatic, 16384), (Sizes{16, 16}));
  EXPECT_EQ(sizes({16, 2, 1024, 1, 0}, 512), (Sizes{32, 32}));
  EXPECT_EQ(sizes({128, 2, 128, 1, 0}, 15360), (Sizes{128, 1}));
}

TEST(LshAttentionTest, HashesSeeDirectionsOnly) {
  const std::int64_t length = 40, rounds = 3;
  for (const std::int64_t buckets : {10, 256}) {
    const LshAttention layer(config_of({4, rounds, buckets, 1, 0}));
    Input in(length);
    in.k = in.q;
    in.q.row(7) = in.k.row(7) = 3 * in.q.row(2);  // alike
    in.q.row(9) = in.k.row(9) = -in.q.row(2);     // opposite
    std::vector<std::uint8_t> seen(length, 1);
    seen[30] = 0;
    Kept kept;
    run(layer, training_pass(), in, {false, seen.data()}, kept);
    const std::int64_t heads = small_config().n_heads;
    ASSERT_EQ(kept.chosen.size(), std::size_t(heads * rounds * length));
    std::set<std::int32_t> met;
    const std::int64_t first = layer.hashing_of(length).first;
    for (std::int64_t i = 0; i < heads * rounds; ++i) {
      const std::int32_t* own = kept.chosen.data() + i * length;
      EXPECT_EQ(own[2], own[7]);
      EXPECT_EQ(own[9] % first, (own[2] % first + first / 2) % first);
      EXPECT_EQ(own[30], buckets);
      for (std::int64_t t = 0; t < length; ++t) {
        if (t == 30) continue;
        met.insert(own[t]);
        EXPECT_GE(own[t], 0);
        EXPECT_LT(own[t], buckets);
      }
    }
    EXPECT_GT(std::int64_t(met.size()), std::min<std::int64_t>(buckets - 1, 100));
  }
}

TEST(LshAttentionTest, RotationsAreOfSeedExampleAndHead) {
  const std::int64_t length = 64;
  const LshAttention layer(config_of({8, 2, 16, 1, 0}));
  Input in(2 * length);
  // Two examples and all heads alike.
  for (Mat* m : {&in.q, &in.k}) {
    m->bottomRows(length) = m->topRows(length).eval();
    const std::int64_t d = small_config().d_head();
    m->operator=(m->leftCols(d).replicate(1, small_config().n_heads).eval());
  }
  const auto buckets_of = [&](Pass pass) {
    Kept kept;
    run(layer, pass, in, {.causal = true}, kept);
    return kept.chosen;
  };
  const auto unit = [&](const std::vector<std::int32_t>& all, std::int64_t example,
                        std::int64_t head) {
    const std::int64_t n = 2 * length, first = (example * small_config().n_heads + head) * n;
    return std::vector<std::int32_t>(all.begin() + first, all.begin() + first + n);
  };
  const auto trained = buckets_of(training_pass(2, 1)), fixed = buckets_of(evaluation(2));
  EXPECT_EQ(buckets_of(training_pass(2, 1)), trained);
  EXPECT_NE(buckets_of(training_pass(2, 2)), trained);
  EXPECT_NE(unit(trained, 0, 0), unit(trained, 1, 0));
  EXPECT_NE(unit(trained, 0, 0), unit(trained, 0, 1));
  Pass late = evaluation(2);
  late.seed = 5;
  late.streams = 9;
  EXPECT_EQ(buckets_of(late), fixed);
  EXPECT_EQ(unit(fixed, 0, 0), unit(fixed, 1, 0));
  EXPECT_NE(unit(fixed, 0, 0), unit(fixed, 0, 1));
}

/// Whoever shares a bucket in some round does so among more rounds.
TEST(LshAttentionTest, MoreRoundsBeginWithThoseOfFewer) {
  const std::int64_t length = 90, most = 5;
  const Input in(length);
  for (const bool in_training : {false, true}) {
    const auto buckets_of = [&](std::int64_t rounds) {
      const LshAttention layer(config_of({8, rounds, 6, 1, 0}));
      Kept kept;
      run(layer, in_training ? training_pass() : evaluation(), in, {.causal = true}, kept);
      return kept.chosen;
    };
    const std::vector<std::int32_t> all = buckets_of(most);
    for (const std::int64_t rounds : {1, 2, 3}) {
      const std::vector<std::int32_t> some = buckets_of(rounds);
      for (std::int64_t head = 0; head < small_config().n_heads; ++head) {
        const auto ours = some.begin() + head * rounds * length;
        EXPECT_TRUE(std::equal(ours, ours + rounds * length, all.begin() + head * most * length));
      }
    }
    // A round has directions of its own.
    EXPECT_FALSE(std::equal(all.begin(), all.begin() + length, all.begin() + length));
  }
}

// -- batches, masks, replay -----------------------------------------------------------------------

TEST(LshAttentionTest, BatchOfTwoIsTwoSingles) {
  const std::int64_t length = 45;
  const LshAttention layer(config_of({8, 2, 6, 1, 0}));
  const Input both(2 * length);
  std::vector<std::uint8_t> seen(2 * length, 1);
  for (std::int64_t t = 30; t < length; ++t) seen[std::size_t(t)] = 0;
  for (const bool causal : {false, true}) {
    const Result ours = run(layer, evaluation(2), both, {causal, seen.data()});
    for (std::int64_t example = 0; example < 2; ++example) {
      const Result single = run(layer, evaluation(), both.part(example * length, length),
                                {causal, seen.data() + example * length});
      expect_close(ours.o.middleRows(example * length, length), single.o, "o");
      expect_close(ours.dq.middleRows(example * length, length), single.dq, "dq");
      expect_close(ours.dk.middleRows(example * length, length), single.dk, "dk");
      expect_close(ours.dv.middleRows(example * length, length), single.dv, "dv");
    }
  }
}

TEST(LshAttentionTest, ThreadsChangeNothing) {
  const LshAttention layer(config_of({8, 2, 6, 1, 0}));
  const Input in(3 * 50);
  Pass pass = training_pass(3);
  pass.dropout = 0.2f;
  set_gemm_threads(1);
  const Result one = run(layer, pass, in, {.causal = true});
  set_gemm_threads(3);
  const Result three = run(layer, pass, in, {.causal = true});
  set_gemm_threads(1);
  EXPECT_TRUE(equal(one.o, three.o));
  EXPECT_TRUE(equal(one.dq, three.dq));
  EXPECT_TRUE(equal(one.dk, three.dk));
  EXPECT_TRUE(equal(one.dv, three.dv));
}

TEST(LshAttentionTest, PaddingIsNotSeen) {
  const std::int64_t length = 40;
  const LshAttention layer(config_of({4, 2, 6, 1, 0}));
  Input in(length);
  std::vector<std::uint8_t> seen(length, 1);
  for (const std::int64_t t : {0, 11, 12, 36, 37, 38, 39}) {
    seen[std::size_t(t)] = 0;
    in.dout.row(t).setZero();  // as queries they have gradients of their own
  }
  for (const bool causal : {false, true}) {
    Kept kept;
    const AttentionMask mask{causal, seen.data()};
    Pass pass = training_pass();
    const Result before = run(layer, pass, in, mask, kept);
    Input other = in;
    for (std::int64_t t = 0; t < length; ++t) {
      if (seen[std::size_t(t)]) continue;
      EXPECT_TRUE(before.dq.row(t).isZero(0)) << t;
      EXPECT_TRUE(before.dk.row(t).isZero(0)) << t;
      EXPECT_TRUE(before.dv.row(t).isZero(0)) << t;
      for (Mat* m : {&other.q, &other.k, &other.v}) m->row(t).setConstant(50);
    }
    pass.recomputes = true;
    const Result after = run(layer, pass, other, mask, kept);
    for (std::int64_t t = 0; t < length; ++t) {
      if (!seen[std::size_t(t)]) continue;
      EXPECT_TRUE(equal(before.o.row(t), after.o.row(t))) << t;
    }
    EXPECT_TRUE(equal(before.dq, after.dq));
    EXPECT_TRUE(equal(before.dv, after.dv));
  }
}

TEST(LshAttentionTest, NothingButPaddingIsZero) {
  const LshAttention layer(config_of({4, 2, 6, 1, 0}));
  const std::vector<std::uint8_t> seen(20, 0);
  const Result r = run(layer, training_pass(), Input(20), {false, seen.data()});
  for (const Mat* m : {&r.o, &r.dq, &r.dk, &r.dv}) EXPECT_TRUE(m->isZero(0));
}

/// Buckets are kept: a later position that hashes anew moves the borders of chunks, and so which
/// earlier keys a query sees.
TEST(LshAttentionTest, WithItsBucketsLooksAtNoLaterPosition) {
  const std::int64_t length = 70, same = 41;
  const LshAttention layer(config_of({8, 3, 6, 1, 1}));
  Input in(length);
  Kept kept;
  Pass pass = training_pass();
  const Result before = run(layer, pass, in, {.causal = true}, kept);
  for (Mat* m : {&in.q, &in.k, &in.v}) m->bottomRows(length - same) *= -2;
  pass.recomputes = true;
  const Result after = run(layer, pass, in, {.causal = true}, kept);
  EXPECT_TRUE(equal(before.o.topRows(same), after.o.topRows(same)));
  EXPECT_FALSE(equal(before.o.row(same), after.o.row(same)));
}

TEST(LshAttentionTest, ReplayHashesNothing) {
  const LshAttention layer(config_of({4, 2, 8, 1, 0}));
  Input in(32);
  Kept kept;
  Pass pass = training_pass();
  run(layer, pass, in, {}, kept);
  const std::vector<std::int32_t> decided = kept.chosen;
  in.q = in.k = random_mat(32, small_config().d_model, 99);
  pass.recomputes = true;
  run(layer, pass, in, {}, kept);
  EXPECT_EQ(kept.chosen, decided);
  pass.recomputes = false;
  run(layer, pass, in, {}, kept);
  EXPECT_NE(kept.chosen, decided);
}

/// o is linear in v whatever is dropped, if backward drops the same.
TEST(LshAttentionTest, DropoutIsRepeatedInBackward) {
  const LshAttention layer(config_of({8, 2, 6, 1, 0}));
  const Input in(2 * 50);
  const AttentionMask causal{.causal = true};
  Pass pass = training_pass(2);
  Kept kept;
  const Result kept_all = run(layer, pass, in, causal, kept);
  pass.dropout = 0.3f;
  const Result dropped = run(layer, pass, in, causal, kept);
  EXPECT_GT((dropped.o - kept_all.o).norm(), 0.1f * kept_all.o.norm());
  EXPECT_NEAR(dot(in.dout, dropped.o), dot(dropped.dv, in.v),
              1e-5 * double(dropped.dv.norm()) * double(in.v.norm()));
  EXPECT_TRUE(equal(run(layer, pass, in, causal).o, dropped.o));
  pass.seed = 2;
  EXPECT_FALSE(equal(run(layer, pass, in, causal).o, dropped.o));
  // The share that is kept makes up for what is dropped.
  Mat mean = Mat::Zero(in.q.rows(), in.q.cols());
  constexpr int kTimes = 400;
  Pass again = training_pass(2);
  again.dropout = 0.3f;
  run(layer, again, in, causal, kept);
  const std::vector<std::int32_t> buckets = kept.chosen;
  for (int i = 0; i < kTimes; ++i) {
    again.seed = std::uint64_t(i);
    again.recomputes = true;
    mean += run(layer, again, in, causal, kept).o / float(kTimes);
  }
  EXPECT_EQ(kept.chosen, buckets);
  again.dropout = 0;
  const Mat whole = run(layer, again, in, causal, kept).o;
  EXPECT_LT((mean - whole).norm(), 0.1f * whole.norm());
}

TEST(LshAttentionTest, MemoryIsLinearInLength) {
  const LshAttention layer(config_of({16, 2, 0, 1, 0}));
  set_gemm_threads(2);
  const auto counts = [&](std::int64_t length) {
    Kept kept;
    const Input in(length);
    run(layer, training_pass(), in, {.causal = true}, kept);
    const std::int64_t elements = kept.elements();
    run(layer, training_pass(), in, {.causal = true}, kept);
    EXPECT_EQ(kept.elements(), elements) << "the second step took more memory";
    return std::pair<std::int64_t, std::int64_t>{elements, kept.largest_buffer()};
  };
  auto before = counts(512);
  for (const std::int64_t length : {1024, 2048, 4096}) {
    const auto now = counts(length);
    EXPECT_LE(double(now.first), 2.02 * double(before.first)) << length;
    EXPECT_LE(double(now.second), 2.02 * double(before.second)) << length;
    // The largest is q's size, and all of them are a few.
    EXPECT_LE(now.second, length * small_config().d_model) << length;
    EXPECT_LE(now.first, 8 * length * small_config().d_model) << length;
    before = now;
  }
  set_gemm_threads(1);
}

// -- decoding -------------------------------------------------------------------------------------

/// Paper 4.4, predict: the slots of the highest priority, exactly.
Mat decode_plainly(const Input& in, const Knobs& knobs, const std::int32_t* buckets) {
  const ModelConfig c = small_config();
  const std::int64_t d = c.d_head(), length = in.q.rows();
  const std::int64_t slots = knobs.rounds * knobs.chunk * (1 + knobs.before);
  Mat o(length, c.d_model);
  for (std::int64_t head = 0; head < c.n_heads; ++head) {
    const Shared s(in, head);
    const auto bucket = [&](std::int64_t round, std::int64_t t) {
      return buckets[(head * knobs.rounds + round) * length + t];
    };
    for (std::int64_t t = 0; t < length; ++t) {
      std::vector<std::pair<std::int64_t, std::int64_t>> slot;  // (priority, position)
      for (std::int64_t j = 0; j <= t; ++j) {
        bool is_alike = false;
        for (std::int64_t round = 0; round < knobs.rounds; ++round) {
          is_alike = is_alike || bucket(round, j) == bucket(round, t);
        }
        slot.emplace_back(j + (is_alike ? length : 0), j);
      }
      std::sort(slot.rbegin(), slot.rend());
      slot.resize(std::min(slot.size(), std::size_t(slots)));
      double largest = -HUGE_VAL, sum = 0;
      for (const auto& [priority, j] : slot) {
        largest = std::max(largest, s.logit(t, j) + penalty({}, t, j));
      }
      Eigen::RowVectorXd out = Eigen::RowVectorXd::Zero(d);
      for (const auto& [priority, j] : slot) {
        const double p = std::exp(s.logit(t, j) + penalty({}, t, j) - largest);
        sum += p;
        out += p * s.v.row(j);
      }
      o.row(t).segment(head * d, d) = (out / sum).cast<float>();
    }
  }
  return o;
}

std::vector<Mat> decode(const LshAttention& layer, const std::vector<Input>& in,
                        const KernelSet& kernels, int threads) {
  const ModelConfig c = small_config();
  const std::int64_t length = in[0].q.rows();
  const int tokens = int(in.size());
  std::vector<Mat> q, k, v, all(in.size(), Mat(length, c.d_model));
  for (const Input& one : in) q.push_back(one.q), k.push_back(one.k), v.push_back(one.v);
  const auto cache = layer.make_cache(tokens, length);
  Mat q_rows, k_rows, v_rows, o(tokens, c.d_model);
  const Stepper stepper{kernels, threads, tokens, layer.workspace_floats(tokens, threads)};
  stepper.run(
      length,
      [&](std::int64_t position) {
        q_rows = rows_at(q, position);
        k_rows = rows_at(k, position);
        v_rows = rows_at(v, position);
        o.setConstant(1e30f);
      },
      [&](const StepContext& ctx) {
        layer.step(ctx, *cache, q_rows.data(), k_rows.data(), v_rows.data(), o.data());
      },
      [&](std::int64_t position) {
        for (std::size_t t = 0; t < all.size(); ++t) {
          all[t].row(position) = o.row(std::int64_t(t));
        }
      });
  return all;
}

TEST(LshAttentionTest, StepIsTheDefinition) {
  const std::int64_t length = 60;
  const std::vector<Input> in = {Input(length), Input(3 * length).part(length, length),
                                 Input(3 * length).part(2 * length, length)};
  for (const Knobs& knobs : {Knobs{4, 2, 8, 1, 0}, Knobs{3, 2, 0, 0, 0}, Knobs{1, 1, 4, 0, 0},
                             Knobs{8, 1, 256, 1, 0}, Knobs{5, 3, 4, 0, 1}}) {
    SCOPED_TRACE("chunk " + std::to_string(knobs.chunk));
    const LshAttention layer(config_of(knobs));
    for (const char* kernels : {"ref", "simd"}) {
      for (const int threads : {1, 3}) {
        const std::vector<Mat> ours = decode(layer, in, find_kernel_set(kernels), threads);
        for (std::size_t i = 0; i < in.size(); ++i) {
          // Forward in evaluation hashes alike.
          Kept kept;
          run(layer, evaluation(), in[i], {.causal = true}, kept);
          expect_close(ours[i], decode_plainly(in[i], knobs, kept.chosen.data()), kernels);
        }
      }
    }
  }
}

/// A cache that pretends, or has decoded before, meets nobody of another decode.
TEST(LshAttentionTest, ListsAreOfTheDecodeThatRuns) {
  const std::int64_t length = 60, from = 40;
  const LshAttention layer(config_of({4, 2, 8, 1, 0}));
  const ModelConfig c = small_config();
  const Input in(length);
  Barrier barrier(1);
  const auto steps = [&](AttentionCache& cache, std::int64_t begin, std::int64_t end) {
    Mat all(end - begin, c.d_model);
    for (std::int64_t t = begin; t < end; ++t) {
      const StepContext ctx{find_kernel_set("simd"), barrier, 0, 1, 1, t, nullptr};
      layer.step(ctx, cache, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(),
                 all.row(t - begin).data());
    }
    return all;
  };
  const StepContext ctx{find_kernel_set("simd"), barrier, 0, 1, 1, 0, nullptr};
  const auto fresh = layer.make_cache(1, length), used = layer.make_cache(1, length);
  const Mat expected = steps(*fresh, 0, length);
  EXPECT_EQ(steps(*used, 0, from), expected.topRows(from));
  EXPECT_EQ(steps(*used, 0, length), expected);
  // Nor of its own later positions, or of the same one before: with another text in between, too.
  EXPECT_EQ(steps(*used, length - 1, length), expected.bottomRows(1));
  EXPECT_EQ(steps(*used, from, length), expected.bottomRows(length - from));
  const StepContext last{find_kernel_set("simd"), barrier, 0, 1, 1, from, nullptr};
  Mat o(1, c.d_model);
  for (std::int64_t t = 0; t < 8; ++t) {
    layer.step(last, *used, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(), o.data());
  }
  EXPECT_EQ(steps(*used, from, length), expected.bottomRows(length - from));
  // Buckets that positions were drawn with are those of the last decode where it came.
  const auto other = layer.make_cache(1, length);
  other->pretend(ctx, from, 7, "some");
  const Mat pretended = steps(*other, from, length);
  const auto again = layer.make_cache(1, length);
  again->pretend(ctx, from, 7, "some");
  again->pretend(ctx, from, 7, "some");
  EXPECT_EQ(steps(*again, from, length), pretended);
}

TEST(LshAttentionTest, StepIsForwardWhereAllFits) {
  const std::int64_t length = 24;
  const LshAttention layer(config_of({12, 1, 4, 1, 0}));
  const Input in(length);
  const std::vector<Mat> ours = decode(layer, {in}, find_kernel_set("simd"), 2);
  expect_close(ours[0], layer.SelfAttention::forward(in.q, in.k, in.v, true), "two chunks");
}

TEST(LshAttentionTest, CostStopsGrowingWithTheSlots) {
  const LshAttention layer(config_of({16, 2, 8, 1, 0}));
  const double d = 48, heads = 6, directions = d * 2 * 4;
  ASSERT_EQ(layer.slots(), 64);
  const Phase few = total(layer.step_cost(1, 10));
  EXPECT_EQ(few.bytes, 4 * (2 * 10 * d + directions));
  EXPECT_EQ(few.flops, 4 * 10 * d + 2 * directions);
  const Phase many = total(layer.step_cost(3, 1000));
  // Of every position that is met a number a round, of whatever length.
  EXPECT_EQ(many.bytes, 4 * (3 * (2 * 64 * d + 2 * heads * 64) + directions));
  EXPECT_EQ(many.flops, 3 * (4 * 64 * d + 2 * directions));
  // Of eight buckets in two rounds 15 of 64 positions share one, until there is room for no more.
  const LshAttention alike(config_of({16, 2, 8, 1, 0, LshGraph::buckets}));
  const Phase some = total(alike.step_cost(1, 128));
  EXPECT_DOUBLE_EQ(some.bytes, 4 * (2 * 30 * d + 2 * heads * 30 + directions));
  EXPECT_EQ(total(alike.step_cost(3, 1000)).bytes, many.bytes);
}

// -- refusals -------------------------------------------------------------------------------------

TEST(LshAttentionTest, BadKnobsAreNamed) {
  const auto refusal_of = [](const Knobs& knobs) { return message_of([&] { config_of(knobs); }); };
  EXPECT_NE(refusal_of({128, 2, 33, 1, 0}).find("33"), std::string::npos);
  EXPECT_NE(refusal_of({128, 2, 1 << 20, 1, 0}).find("1048576"), std::string::npos);
  EXPECT_NE(refusal_of({0, 2, 0, 1, 0}).find("lsh_chunk 0"), std::string::npos);
  EXPECT_NE(refusal_of({128, 0, 0, 1, 0}).find("lsh_rounds 0"), std::string::npos);
  EXPECT_NE(refusal_of({128, 2, 0, -1, 0}).find("lsh_chunks_before -1"), std::string::npos);
}

/// Where heads are shared, it has some: what it makes of them is what the whole layer does.
TEST(LshAttention, SomeHeadsOfALayerAreWhatTheyAreInAllOfThem) {
  const ModelConfig c = config_of({4, 2, 4, 1, 0});
  const std::int64_t width = c.d_model, head = c.d_head(), length = 22;
  const LshAttention whole(c);
  LshAttention part(c);
  part.take_heads({1, c.n_heads});
  EXPECT_LT(part.activation_floats(), whole.activation_floats());
  EXPECT_LT(part.cache_bytes(2, length), whole.cache_bytes(2, length));
  const AttentionInput two(2 * length, 2 * length, width), one(length, length, width);
  for (const bool causal : {false, true}) {
    expect_last_heads(part, whole, head, training_pass(2), two, {.causal = causal});
  }
  EXPECT_TRUE(decode_attention(part, one).rightCols(width - head) ==
              decode_attention(whole, one).rightCols(width - head));
}

}  // namespace
}  // namespace scaling
