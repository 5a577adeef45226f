// Other sparse attentions as the authors of Sparsefinder emulated them to compare with: graphs made
// of positions or of the projected queries and keys. None is the original model; the attentions of
// this project that bear the models' names are others.
#pragma once

#include <cstdint>
#include <span>

#include "models/sparsefinder/predictors.h"

namespace scaling {

/// Every query sees itself; a number of tokens drawn from {2, ..., most - 1} see all and are seen
/// by all, their positions drawn with replacement. Throws UserError if `most` is below 3, where
/// nothing can be drawn.
Prediction sim_longformer(std::int64_t positions, std::int64_t most, std::uint64_t seed);

/// Blocks of one position: the first and the last see all and are seen by all, every other sees its
/// neighbours and `random` positions by the plan rule (models/layers/attention/patterns/bigbird.h).
/// Throws UserError for a negative number.
Prediction sim_bigbird(std::int64_t positions, std::int64_t random, std::int64_t head,
                       std::uint64_t seed);

/// One round of hashing of [q'; k'] by random directions: a position's query and key are in one
/// bucket. Throws UserError for a number of buckets that is odd or below 2.
Prediction sim_reformer(const Mat& q, const Mat& k, std::int64_t buckets, std::uint64_t seed);

/// Centroids of sim_routing, (clusters, rank), each of length 1: running means, over `rounds`
/// passes through the training sequences, of the unit queries and keys that are nearest to them by
/// their products. Where the mean of one is zero it stays. decay: of the running means. Throws
/// UserError for no clusters.
Mat learn_routing_centroids(std::span<const Mat> sequences, std::int64_t clusters, double decay,
                            std::int64_t rounds, std::uint64_t seed);
/// Every centroid takes the floor(n / clusters) + 1 queries and keys whose unit vectors have the
/// largest products with it; what several take stays with the first of them, what none takes has no
/// pairs. Equal products go to the earlier position.
Prediction sim_routing(const Mat& q, const Mat& k, const Mat& centroids);

/// Every pair with the same probability, drawn once: a larger density has all pairs of a smaller.
std::vector<Prediction> random_graphs(std::int64_t positions, std::span<const float> densities,
                                      std::uint64_t seed);

/// Of each query the keys with the largest true scores among the legal ones, each number of
/// `counts` of them: no graph of as many pairs a query has more mass. Equal scores go to the
/// earlier key.
std::vector<Prediction> oracle_graphs(const Mat& scores, bool causal,
                                      std::span<const std::int64_t> counts);

}  // namespace scaling
