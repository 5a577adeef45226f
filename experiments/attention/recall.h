// How much of exact attention LSH attention sees.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/config.h"

namespace scaling {

/// Distributions of shared queries and keys. random: every component N(0, 1). clustered: each
/// position belongs to one of length / kClusterSize clusters, drawn uniformly, and is sqrt(3/4)
/// times its cluster's centre plus sqrt(1/4) times noise, both of components N(0, 1).
inline constexpr const char* kDistributions[] = {"random", "clustered"};
inline constexpr std::int64_t kClusterSize = 64;

struct Recall {
  std::vector<double> recall;   ///< one value a head
  std::vector<double> density;  ///< pairs in view of all pairs of a query and an earlier key
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Recall, recall, density)

/// The share of a shared-QK attention's softmax over all earlier positions (causal, itself hidden)
/// that falls on keys in view in any round; a mean over queries but the first, which sees
/// nobody. One Recall for each setting, which differ in lsh_chunk, lsh_rounds and the like but are
/// of one width and one number of heads; heads have data and rotations of their own. Throws
/// UserError for an unknown distribution (lists the known), Interrupted between two settings.
std::vector<Recall> measure_recall(const std::string& distribution, std::int64_t length,
                                   const std::vector<ModelConfig>& settings, int threads);

}  // namespace scaling
