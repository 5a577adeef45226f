// The gold graph of a head: the pairs to which a sparse normaliser gives a probability that is not
// zero, and rows of such a normaliser over part of their keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/attention/normaliser.h"
#include "models/matrix.h"
#include "models/sparsefinder/graph.h"

namespace scaling {

/// Positions of one head: rows of a matrix, or of some of its columns.
using HeadSlice = Eigen::Ref<const Mat, 0, Eigen::OuterStride<>>;

/// A head's probabilities that are not zero, a query's one after another with ascending keys.
struct GoldGraph {
  std::int64_t positions = 0;
  bool causal = false;
  std::vector<std::int32_t> starts;  ///< (positions + 1): where a query's begin
  std::vector<std::int32_t> keys;
  std::vector<float> p;

  std::int64_t pairs() const { return std::int64_t(keys.size()); }
  std::span<const std::int32_t> keys_of(std::int64_t query) const {
    return std::span(keys).subspan(first(query), size(query));
  }
  std::span<const float> p_of(std::int64_t query) const {
    return std::span(p).subspan(first(query), size(query));
  }
  HeadGraph graph() const;

 private:
  std::size_t first(std::int64_t query) const { return std::size_t(starts[std::size_t(query)]); }
  std::size_t size(std::int64_t query) const {
    return std::size_t(starts[std::size_t(query) + 1]) - first(query);
  }
};

/// Of a gold graph's pairs the shares by |query - key|: 0, then 1, 2 to 3, 4 to 7 and so on, each
/// bin twice as wide as the one before, up to the last that `positions` reach; all 0 of no pairs.
std::vector<double> distance_shares(const GoldGraph& gold);

/// Scores q k^T, not divided by sqrt(d_head): row i of `scores`, (positions, positions).
void head_scores(const HeadSlice& q, const HeadSlice& k, Mat& scores);

/// Of a layer's queries and keys after the projection and before any scaling, as its forward
/// computes them: what is not legal is left out, scores are divided by sqrt(d_head).
GoldGraph gold_graph(const HeadSlice& q, const HeadSlice& k, bool causal,
                     const ThresholdNormaliser& normaliser);
/// The same from head_scores.
GoldGraph gold_graph_of(const Mat& scores, std::int64_t d_head, bool causal,
                        const ThresholdNormaliser& normaliser);

/// A row of n scores, of which those take part whose bit is set: p becomes the probabilities, 0 of
/// the others. The others are excluded, not given low scores; with no bit set all p are 0. scale:
/// what scores are multiplied by. Returns the threshold (entmax_threshold); 0 with no bit set.
float masked_row(const ThresholdNormaliser& normaliser, const float* scores, std::int64_t n,
                 const std::uint64_t* bits, float scale, float* p);

}  // namespace scaling
