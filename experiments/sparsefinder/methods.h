// The methods that are compared offline and the grids of their parameters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/sparsefinder/projection.h"

namespace scaling {

/// Where a method's queries and keys come from; none: it looks at positions or scores.
enum class Source { none, pairwise, per_query, random, pca };
constexpr std::array<const char*, 5> names_of(Source) {
  return {"none", "pairwise", "per_query", "random", "pca"};
}

enum class Predictor {
  distance,
  quantization,
  kmeans,
  sim_window,
  sim_longformer,
  sim_bigbird,
  sim_reformer,
  sim_routing,
  oracle,
  random_graph
};

struct Method {
  std::string name;
  Predictor predictor;
  Source source;
};
/// Those of the published comparison, the same with the other loss, and controls. Methods of one
/// source are neighbours.
const std::vector<Method>& all_methods();
/// Throws UserError that lists the known.
const Method& find_method(const std::string& name);

/// The paper's grid (its main text), and values beyond it for comparisons at equal sparsity, which
/// are to be labelled as extended.
enum class Grid { paper, extended };
constexpr std::array<const char*, 2> names_of(Grid) { return {"paper", "extended"}; }

/// One value of a method's parameter.
struct Configuration {
  Grid grid = Grid::paper;
  /// What `value` is: theta, a squared distance; density, of a head's training pairs those that are
  /// as near, from which its theta is taken; bins; clusters; buckets; tokens; keys; or "".
  std::string parameter;
  double value = 0;
  std::int64_t nearest = 1;  ///< clusters that a position is in, of kmeans
};

/// For sequences of so many positions: what needs more of them, or of the points that clusters are
/// learnt from, is left out.
std::vector<Configuration> configurations(const Method& method, std::int64_t positions,
                                          std::int64_t points);
/// Widths of windows of the main text and of masked language modelling, all of them odd or 0, and
/// for sim_window those beyond. Those wider than everything are left out.
std::vector<std::int64_t> window_widths(const Method& method, std::int64_t positions);

}  // namespace scaling
