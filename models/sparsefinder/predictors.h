// Sparsefinder's predictors: from a head's projected queries and keys to the pairs that are thought
// to matter, before any score is computed. Masks, windows and globals are for the caller to add.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/matrix.h"
#include "models/sparsefinder/graph.h"

namespace scaling {

/// How evenly buckets share their keys; both 1 of equal buckets, 0 without any. Keys in no bucket
/// do not count.
struct BucketSizes {
  double entropy = 0;  ///< of a key's bucket, over that of equal ones, log(buckets)
  double largest = 0;  ///< keys of the largest over the mean
};
/// sizes: keys of each bucket. One bucket is as even as can be.
BucketSizes bucket_sizes(std::span<const double> sizes);

/// A predicted graph, and the pairs that whoever computes it by buckets works through: those of
/// every bucket, with its padding and with pairs that share several buckets counted as often.
struct Prediction {
  HeadGraph graph;
  double operations = 0;
  BucketSizes buckets = {};
};

/// Pairs at a squared distance of at most each of the thresholds: infinity gives all pairs, a
/// negative one none. q, k: (positions, rank).
std::vector<Prediction> predict_by_distance(const Mat& q, const Mat& k,
                                            std::span<const float> thresholds);

/// Bins of one coordinate by rank: each of the first holds ceil(n / bins) positions, the last what
/// is left; of equal values the earlier position comes first. Of each position its bin.
std::vector<std::int32_t> rank_bins(const Mat& x, std::int64_t column, std::int64_t bins);
/// Pairs of equal bins, queries' and keys' counted apart, in any coordinate. Bins depend on the
/// whole sequence, whatever the mask, so that there is no step for a decode. Throws UserError for
/// more bins than positions, or none.
Prediction predict_by_quantization(const Mat& q, const Mat& k, std::int64_t bins);

/// (clusters, rank) of the points, rows of `points`: k-means++ and then Lloyd's rounds, at most
/// `rounds` and until no point changes. Clusters are not balanced; one that becomes empty keeps its
/// centroid. Throws UserError for more clusters than points, or none.
Mat learn_centroids(const Mat& points, std::int64_t clusters, std::int64_t rounds,
                    std::uint64_t seed);
/// Of each row of x its `nearest` nearest centroids by squared distance, the nearest first and of
/// equal ones the first: (rows * nearest).
std::vector<std::int32_t> nearest_centroids(const Mat& x, const Mat& centroids,
                                            std::int64_t nearest);
/// Pairs of which both have a centroid in common among their `nearest` ones. Throws UserError if
/// there are fewer centroids than that.
Prediction predict_by_clusters(const Mat& q, const Mat& k, const Mat& centroids,
                               std::int64_t nearest);

/// Pairs that share a bucket. queries, keys: of each position its `each` buckets, or -1 for none;
/// the buckets of one position differ.
Prediction predict_by_buckets(std::span<const std::int32_t> queries,
                              std::span<const std::int32_t> keys, std::int64_t each,
                              std::int64_t buckets);

}  // namespace scaling
