// Gold graphs, and that what they leave out changes nothing: the sparse-consistency of entmax.
#include "models/sparsefinder/gold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/team.h"
#include "models/transformer/transformer.h"
#include "tests/models/model_harness.h"
#include "tests/sparsefinder/heads.h"

namespace scaling {
namespace {

constexpr std::int64_t kKeys = 130;

struct Row {
  std::vector<float> scores, p;
  float threshold = 0;
};

std::vector<std::uint64_t> all_bits() {
  return std::vector<std::uint64_t>((kKeys + 63) / 64, ~std::uint64_t(0));
}

float masked(const std::vector<float>& scores, const std::vector<std::uint64_t>& bits,
             std::vector<float>& p) {
  p.resize(kKeys);
  return masked_row(entmax15(), scores.data(), kKeys, bits.data(), 1, p.data());
}

Row drawn_row(std::uint64_t stream, float spread) {
  Row row;
  row.scores.resize(kKeys);
  draw_normals(3, stream, 0, kKeys, row.scores.data());
  for (float& score : row.scores) score *= spread;
  row.threshold = masked(row.scores, all_bits(), row.p);
  return row;
}

void drop(std::vector<std::uint64_t>& bits, std::int64_t key) {
  bits[std::size_t(key / 64)] &= ~(std::uint64_t(1) << (key % 64));
}

/// T1: any part of what has no probability may be missing, and no bit changes.
TEST(SparseConsistency, WhatHasNoProbabilityMayBeMissing) {
  Rng random(11);
  std::int64_t dropped = 0;
  for (std::uint64_t stream = 0; stream < 500; ++stream) {
    const Row row = drawn_row(stream, 0.5f + float(stream % 7));
    std::vector<std::uint64_t> bits = all_bits();
    for (std::int64_t key = 0; key < kKeys; ++key) {
      if (row.p[std::size_t(key)] > 0 || random.below(3) == 0) continue;
      drop(bits, key);
      ++dropped;
    }
    std::vector<float> p;
    EXPECT_EQ(masked(row.scores, bits, p), row.threshold) << stream;
    EXPECT_EQ(p, row.p) << stream;
  }
  EXPECT_GT(dropped, 10000);
}

/// T2: what is missing of the mass is twice what is wrong, and what is left can only grow.
TEST(SparseConsistency, MissingMassIsHalfOfTheError) {
  Rng random(12);
  for (std::uint64_t stream = 0; stream < 300; ++stream) {
    const Row row = drawn_row(stream, 0.5f + float(stream % 5));
    std::vector<std::uint64_t> bits = all_bits();
    std::vector<bool> kept(kKeys, true);
    double lost = 0;
    for (std::int64_t key = 1; key < kKeys; ++key) {
      if (random.below(2) == 0) continue;
      drop(bits, key);
      kept[std::size_t(key)] = false;
      lost += double(row.p[std::size_t(key)]);
    }
    std::vector<float> p;
    const float threshold = masked(row.scores, bits, p);
    float largest_kept = row.scores[0];
    for (std::size_t key = 0; key < std::size_t(kKeys); ++key) {
      if (kept[key]) largest_kept = std::max(largest_kept, row.scores[key]);
    }
    const float largest = *std::max_element(row.scores.begin(), row.scores.end());
    // Thresholds are those of half the scores, less the half of the largest.
    EXPECT_LE(threshold + largest_kept / 2, row.threshold + largest / 2 + 1e-5f) << stream;
    double error = 0, sum = 0;
    for (std::size_t key = 0; key < std::size_t(kKeys); ++key) {
      error += std::abs(double(p[key]) - double(row.p[key]));
      sum += double(p[key]);
      if (kept[key]) {
        EXPECT_GE(p[key], row.p[key] - 1e-6f);
      } else {
        EXPECT_EQ(p[key], 0);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_NEAR(error, 2 * lost, 2e-5) << stream;
  }
}

/// T4: with more keys no more mass is missing.
TEST(SparseConsistency, MoreKeysLoseLess) {
  Rng random(13);
  for (std::uint64_t stream = 0; stream < 50; ++stream) {
    const Row row = drawn_row(stream, 2);
    std::vector<std::int64_t> order(kKeys);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.below(std::uint32_t(i + 1))]);
    }
    std::vector<std::uint64_t> bits = all_bits();
    double before = 0;
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      drop(bits, order[i]);
      if (i % 10 != 0) continue;
      std::vector<float> p;
      masked(row.scores, bits, p);
      double error = 0;
      for (std::size_t key = 0; key < p.size(); ++key) {
        error += std::abs(double(p[key]) - double(row.p[key]));
      }
      EXPECT_GE(error, before - 2e-5) << stream << " " << i;
      before = error;
    }
  }
}

TEST(MaskedRow, NoKeysGiveZeros) {
  const std::vector<std::uint64_t> none(std::size_t((kKeys + 63) / 64), 0);
  std::vector<float> p;
  EXPECT_EQ(masked(drawn_row(1, 1).scores, none, p), 0);
  EXPECT_EQ(p, std::vector<float>(std::size_t(kKeys), 0.0f));
}

/// Row by row from the definition in double precision.
TEST(GoldGraphTest, IsThatOfTheDefinition) {
  const std::int64_t n = 40, d = 16;
  const Mat q = normal_rows(n, d, 1, 1.5f), k = normal_rows(n, d, 2, 1.5f);
  for (const bool causal : {false, true}) {
    const GoldGraph gold = gold_graph(q, k, causal, entmax15());
    const HeadGraph graph = gold.graph();
    EXPECT_EQ(graph.pairs(), gold.pairs());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t legal = causal ? i + 1 : n;
      std::vector<double> x;
      for (std::int64_t j = 0; j < legal; ++j) {
        x.push_back(q.row(i).cast<double>().dot(k.row(j).cast<double>()) / std::sqrt(double(d)) /
                    2);
      }
      std::vector<double> sorted = x;
      std::sort(sorted.rbegin(), sorted.rend());
      double sum = 0, squares = 0, tau = 0;
      for (std::size_t r = 1; r <= sorted.size(); ++r) {
        sum += sorted[r - 1];
        squares += sorted[r - 1] * sorted[r - 1];
        const double mean = sum / double(r), ss = squares - sum * mean;
        const double candidate = mean - std::sqrt(std::max(0.0, (1 - ss) / double(r)));
        if (candidate <= sorted[r - 1]) tau = candidate;
      }
      double total = 0;
      for (const float p : gold.p_of(i)) total += double(p);
      EXPECT_NEAR(total, 1, 1e-5);
      std::size_t at = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const double over = j < legal ? x[std::size_t(j)] - tau : -1;
        if (std::abs(over) > 1e-5) {
          EXPECT_EQ(graph.has(i, j), over > 0) << i << " " << j;
        }
        if (!graph.has(i, j)) continue;
        ASSERT_EQ(gold.keys_of(i)[at], j);
        EXPECT_NEAR(gold.p_of(i)[at++], over * over, 1e-5);
      }
    }
  }
}

/// What a model's self-attention gives is its probabilities, from queries and keys alone, times its
/// values, and nothing that the graph lacks adds to it.
TEST(GoldGraphTest, SharesOfDistancesAreCounts) {
  for (const std::int64_t n : {1, 2, 5, 64, 65}) {
    const GoldGraph gold = drawn_gold(n, false, 7);
    std::vector<double> counts;
    for (std::int64_t from = 0; from < n; from = from == 0 ? 1 : 2 * from) {
      const std::int64_t end = from == 0 ? 1 : 2 * from;
      double count = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        for (const std::int32_t key : gold.keys_of(i)) {
          const std::int64_t distance = std::abs(i - key);
          count += distance >= from && distance < end;
        }
      }
      counts.push_back(count / double(gold.pairs()));
    }
    const std::vector<double> shares = distance_shares(gold);
    ASSERT_EQ(shares.size(), counts.size()) << n;
    for (std::size_t bin = 0; bin < shares.size(); ++bin) {
      EXPECT_NEAR(shares[bin], counts[bin], 1e-12) << n << " positions, bin " << bin;
    }
  }
}

TEST(GoldGraphTest, MakesTheLayersOfAModel) {
  ModelConfig config = config_of_shape("tiny");
  config.encoder_layers = 0;
  set_field(config, "normaliser", "entmax15");
  set_field(config, "embedding_scale", 20);
  const auto model = trainable(config);
  const auto kept = model->make_activations(/*stored=*/true);
  for (const bool causal : {false, true}) {
    std::vector<Example> examples(2);
    for (std::uint64_t e = 0; e < 2; ++e) examples[e].target = draw_ids(config, 9, e);
    Batch batch = batch_of(examples);
    batch.causal = causal;
    const auto views = model->self_attentions(find_gemm("eigen"), batch, *kept);
    ASSERT_EQ(std::int64_t(views.size()), config.decoder_layers * config.attention_layers);
    const std::int64_t d = config.d_head(), n = 9;
    for (const AttentionView& view : views) {
      for (std::int64_t e = 0; e < 2; ++e) {
        for (std::int64_t head = 0; head < config.n_heads; ++head) {
          const auto part = [&](const Mat& of) { return of.block(e * n, head * d, n, d); };
          const GoldGraph gold = gold_graph(part(*view.q), part(*view.k), causal, entmax15());
          const Mat v = part(*view.v), o = part(*view.o);
          for (std::int64_t i = 0; i < n; ++i) {
            ASSERT_GE(gold.keys_of(i).size(), 1u);
            Eigen::RowVectorXf mixed = Eigen::RowVectorXf::Zero(d);
            for (std::size_t at = 0; at < gold.keys_of(i).size(); ++at) {
              mixed += gold.p_of(i)[at] * v.row(gold.keys_of(i)[at]);
            }
            EXPECT_LE((mixed - o.row(i)).cwiseAbs().maxCoeff(),
                      1e-5f * (1 + o.row(i).cwiseAbs().maxCoeff()));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace scaling
