// A row at a time: the keys that take part, packed, through the project's exact thresholds.
#include "models/sparsefinder/gold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "kernels/check.h"

namespace scaling {
namespace {

/// What rows are computed in.
struct RowBuffers {
  std::vector<float> p, sorted;
};

/// scores: of the keys that take part, n >= 1; they become probabilities.
float normalise(const ThresholdNormaliser& normaliser, float scale, float* scores, std::int64_t n,
                std::vector<float>& sorted) {
  const float largest = *std::max_element(scores, scores + n);
  for (std::int64_t i = 0; i < n; ++i) scores[i] = (scores[i] - largest) * scale;
  sorted.assign(scores, scores + n);
  const float threshold = normaliser.threshold(sorted.data(), n);
  normaliser.apply(threshold, scores, n);
  return threshold;
}

}  // namespace

HeadGraph GoldGraph::graph() const {
  HeadGraph all(positions);
  for (std::int64_t i = 0; i < positions; ++i) {
    for (const std::int32_t key : keys_of(i)) all.add(i, std::int64_t(key));
  }
  return all;
}

std::vector<double> distance_shares(const GoldGraph& gold) {
  SCALING_CHECK(gold.positions > 0);
  const auto bin = [](std::int64_t distance) { return std::bit_width(std::uint64_t(distance)); };
  std::vector<double> shares(std::size_t(bin(gold.positions - 1)) + 1, 0.0);
  const double each = 1 / double(std::max<std::int64_t>(gold.pairs(), 1));
  for (std::int64_t i = 0; i < gold.positions; ++i) {
    for (const std::int32_t key : gold.keys_of(i)) {
      shares[std::size_t(bin(std::abs(i - std::int64_t(key))))] += each;
    }
  }
  return shares;
}

void head_scores(const HeadSlice& q, const HeadSlice& k, Mat& scores) {
  SCALING_CHECK(q.rows() == k.rows() && q.cols() == k.cols());
  scores.resize(q.rows(), k.rows());
  scores.noalias() = q * k.transpose();
}

GoldGraph gold_graph_of(const Mat& scores, std::int64_t d_head, bool causal,
                        const ThresholdNormaliser& normaliser) {
  const std::int64_t n = scores.rows();
  const float scale = 1 / std::sqrt(float(d_head));
  GoldGraph gold;
  gold.positions = n;
  gold.causal = causal;
  gold.starts.push_back(0);
  RowBuffers b;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t legal = legal_keys(n, i, causal).end;
    b.p.assign(scores.row(i).data(), scores.row(i).data() + legal);
    normalise(normaliser, scale, b.p.data(), legal, b.sorted);
    for (std::int64_t j = 0; j < legal; ++j) {
      if (!(b.p[std::size_t(j)] > 0)) continue;
      gold.keys.push_back(std::int32_t(j));
      gold.p.push_back(b.p[std::size_t(j)]);
    }
    gold.starts.push_back(std::int32_t(gold.keys.size()));
  }
  return gold;
}

GoldGraph gold_graph(const HeadSlice& q, const HeadSlice& k, bool causal,
                     const ThresholdNormaliser& normaliser) {
  Mat scores;
  head_scores(q, k, scores);
  return gold_graph_of(scores, q.cols(), causal, normaliser);
}

float masked_row(const ThresholdNormaliser& normaliser, const float* scores, std::int64_t n,
                 const std::uint64_t* bits, float scale, float* p) {
  const auto takes_part = [bits](std::int64_t j) { return (bits[j / 64] >> (j % 64) & 1) != 0; };
  RowBuffers b;
  for (std::int64_t j = 0; j < n; ++j) {
    if (takes_part(j)) b.p.push_back(scores[j]);
  }
  std::fill(p, p + n, 0.0f);
  if (b.p.empty()) return 0;
  const float threshold =
      normalise(normaliser, scale, b.p.data(), std::int64_t(b.p.size()), b.sorted);
  for (std::int64_t j = 0, i = 0; j < n; ++j) {
    if (takes_part(j)) p[j] = b.p[std::size_t(i++)];
  }
  return threshold;
}

}  // namespace scaling
