// What a full attention's matrix of weights is made of: its singular values.
#pragma once

#include <vector>

#include "models/layers/attention/normaliser.h"
#include "models/sparsefinder/gold.h"

namespace scaling {

/// What each query of one head gives to each key, (queries, keys), as a full attention's forward
/// computes it: rows sum to 1. normaliser: null for softmax.
Mat head_weights(const HeadSlice& q, const HeadSlice& k, bool causal,
                 const ThresholdNormaliser* normaliser);

/// Of a square matrix: entry i is the share of the i + 1 largest singular values in the sum of all
/// (Linformer, figure 1: normalised cumulative singular values). By the eigenvalues of m^T m in
/// double: values below 1e-8 of the largest count as none.
std::vector<double> singular_shares(const Mat& m);

/// How many of the largest values it takes to have `share` of their sum. shares: as above.
std::int64_t rank_of_share(const std::vector<double>& shares, double share);

}  // namespace scaling
