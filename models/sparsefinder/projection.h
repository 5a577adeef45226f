// Sparsefinder's linear map of a head: queries and keys into a few dimensions in which those that
// meet are near ("Predicting Attention Sparsity in Transformers", equation 7), and maps that have
// learnt nothing, to compare with.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/sparsefinder/gold.h"

namespace scaling {

/// One map for queries and keys alike, (d_head, rank): x' = x W. It has no bias: distances are the
/// same for any, so that its gradient is zero.
using ProjectionMap = Eigen::MatrixXd;
/// (positions, rank) of one head.
using ProjectedRows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// pairwise, as published: a hinge for each pair of a positive and a negative key. per_query, as in
/// the authors' code: a hinge for each query, of the sums over its keys.
enum class ProjectionLoss { pairwise, per_query };
constexpr std::array<const char*, 2> names_of(ProjectionLoss) { return {"pairwise", "per_query"}; }

struct ProjectionSettings {
  std::int64_t rank = 4;
  ProjectionLoss loss = ProjectionLoss::pairwise;
  double margin = 1;
  double learning_rate = 0.01;  ///< of Adam
  double clip = 1;              ///< longest gradient, by its Frobenius norm
  std::int64_t batch = 16;      ///< sequences
  std::int64_t epochs = 10;
  std::uint64_t seed = 1;
};

/// A positive and a negative key of one query.
struct Triple {
  std::int32_t query, positive, negative;
};

/// For each query as many triples as it has positive or, if these are fewer, negative keys: both
/// drawn without replacement, negatives from the legal keys whose probability is zero. A query's
/// triples are neighbours. seed, stream: of the draws.
std::vector<Triple> draw_triples(const GoldGraph& gold, std::uint64_t seed, std::uint64_t stream);

/// Loss of one sequence: pairwise, the mean over triples of [margin + |q' - k'_P|^2 - |q' -
/// k'_N|^2]+; per_query, the sum over queries of [margin + sum |q' - k'_P|^2 - sum |q' -
/// k'_N|^2]+ over the number of positions. q, k: (positions, rank), projected. dq, dk: of that
/// size, become the gradients; both may be null.
double projection_loss(ProjectionLoss loss, double margin, std::span<const Triple> triples,
                       const ProjectedRows& q, const ProjectedRows& k, ProjectedRows* dq,
                       ProjectedRows* dk);

/// One training sequence of a head; what it refers to outlives the learning.
struct HeadSequence {
  HeadSlice q, k;
  const GoldGraph& gold;
};

/// Throws UserError, with the value, for settings that no learning can have.
void require_sound(const ProjectionSettings& settings, std::int64_t d_head);

struct LearntProjection {
  ProjectionMap map;
  std::vector<double> losses;  ///< mean of each epoch, before its steps
};

/// Uniform in +-1/sqrt(d_head) at first. seed: of these and of what each epoch draws, the order of
/// sequences among it. There is one sequence at least. Throws as require_sound does.
LearntProjection learn_projection(std::span<const HeadSequence> sequences,
                                  const ProjectionSettings& settings);

/// Normal values of variance 1 / rank: squared distances keep their mean.
ProjectionMap random_projection(std::int64_t d_head, std::int64_t rank, std::uint64_t seed);
/// Principal axes of queries and keys pooled, the longest first. Signs are such that the largest
/// component of each axis is positive.
ProjectionMap pca_projection(std::span<const HeadSequence> sequences, std::int64_t rank);

/// x W, computed in double precision.
Mat projected(const HeadSlice& x, const ProjectionMap& map);

}  // namespace scaling
