// Tables.
#include "experiments/sparsefinder/methods.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/knobs.h"

namespace scaling {
namespace {

using Values = std::vector<double>;

// Of the main text, whose distances are not squared.
const Values kDistances = {0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5};
const Values kBuckets = {2, 4, 6, 8, 10, 12, 16, 20};
const Values kLongformerTokens = {4, 6, 8, 10, 12, 16, 20};  // 2 cannot be drawn
// Of the authors' programs, beyond the squares of kDistances, and finer ones.
const Values kFurtherThresholds = {0.05, 0.1, 0.5, 1.5, 2, 3, 3.5, 4.5, 5, 7, 8, 10, 30, 40, 60};
const Values kDensities = {0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5};
const Values kFurtherBins = {24, 32, 48, 64};
const Values kFurtherClusters = {24, 32, 48, 64, 96, 128};
const Values kFurtherTokens = {24, 32, 48, 64};
const Values kCounts = {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
const std::vector<std::int64_t> kWidths = {0,  1,  3,  5,  7,   9,   11,  15,  19,  23, 27,
                                           31, 41, 51, 75, 101, 125, 151, 175, 201, 251};
const std::vector<std::int64_t> kFurtherWidths = {301, 351, 401, 451, 501};

void add(std::vector<Configuration>& to, Grid grid, const std::string& parameter,
         const Values& values, std::int64_t nearest = 1) {
  for (const double value : values) to.push_back({grid, parameter, value, nearest});
}

void add_both(std::vector<Configuration>& to, const std::string& parameter, const Values& paper,
              const Values& further, std::int64_t nearest = 1) {
  add(to, Grid::paper, parameter, paper, nearest);
  add(to, Grid::extended, parameter, further, nearest);
}

std::vector<Configuration> every_configuration(const Method& method) {
  std::vector<Configuration> all;
  switch (method.predictor) {
    case Predictor::distance: {
      // What has learnt nothing has no scale that the paper's thresholds are of.
      const bool has_scale =
          method.source == Source::pairwise || method.source == Source::per_query;
      Values squares;
      for (const double distance : kDistances) squares.push_back(distance * distance);
      if (has_scale) add_both(all, "theta", squares, kFurtherThresholds);
      add(all, Grid::extended, "density", kDensities);
      break;
    }
    case Predictor::quantization:
      add_both(all, "bins", kBuckets, kFurtherBins);
      break;
    case Predictor::kmeans:
      add_both(all, "clusters", kBuckets, kFurtherClusters);
      add_both(all, "clusters", kBuckets, kFurtherClusters, 2);
      break;
    case Predictor::sim_window:
      add(all, Grid::paper, "", {0});
      break;
    case Predictor::sim_longformer:
      add_both(all, "tokens", kLongformerTokens, kFurtherTokens);
      break;
    case Predictor::sim_bigbird:
      add_both(all, "tokens", kBuckets, kFurtherTokens);
      break;
    case Predictor::sim_reformer:
      add_both(all, "buckets", kBuckets, {30, 64, 100});
      break;
    case Predictor::sim_routing:
      add_both(all, "clusters", kBuckets, kFurtherClusters);
      break;
    case Predictor::oracle:
      add(all, Grid::extended, "keys", kCounts);
      break;
    case Predictor::random_graph:
      add(all, Grid::extended, "density", kDensities);
      break;
  }
  return all;
}

}  // namespace

const std::vector<Method>& all_methods() {
  static const std::vector<Method> all = {
      {"sim_window", Predictor::sim_window, Source::none},
      {"sim_longformer", Predictor::sim_longformer, Source::none},
      {"sim_bigbird", Predictor::sim_bigbird, Source::none},
      {"oracle", Predictor::oracle, Source::none},
      {"random_graph", Predictor::random_graph, Source::none},
      {"distance", Predictor::distance, Source::pairwise},
      {"quantization", Predictor::quantization, Source::pairwise},
      {"kmeans", Predictor::kmeans, Source::pairwise},
      {"sim_reformer", Predictor::sim_reformer, Source::pairwise},
      {"sim_routing", Predictor::sim_routing, Source::pairwise},
      {"distance_per_query", Predictor::distance, Source::per_query},
      {"quantization_per_query", Predictor::quantization, Source::per_query},
      {"kmeans_per_query", Predictor::kmeans, Source::per_query},
      {"distance_random", Predictor::distance, Source::random},
      {"kmeans_random", Predictor::kmeans, Source::random},
      {"distance_pca", Predictor::distance, Source::pca},
      {"kmeans_pca", Predictor::kmeans, Source::pca}};
  return all;
}

const Method& find_method(const std::string& name) {
  std::vector<std::string> known;
  for (const Method& method : all_methods()) {
    if (method.name == name) return method;
    known.push_back(method.name);
  }
  refuse_choice("method", name, known);
}

std::vector<Configuration> configurations(const Method& method, std::int64_t positions,
                                          std::int64_t points) {
  std::vector<Configuration> all = every_configuration(method);
  std::erase_if(all, [positions, points](const Configuration& one) {
    const bool is_real = one.parameter == "theta" || one.parameter == "density";
    if (is_real || one.parameter.empty()) return false;
    const auto most = one.parameter == "clusters" ? std::min(positions, points) : positions;
    return one.value > double(most);
  });
  if (all.empty()) {
    throw UserError("method '" + method.name + "' has nothing to try at length " +
                    std::to_string(positions) + " and cluster_points " + std::to_string(points) +
                    ": its grid is above both; raise them, or leave it out of --methods");
  }
  return all;
}

std::vector<std::int64_t> window_widths(const Method& method, std::int64_t positions) {
  std::vector<std::int64_t> all = kWidths;
  if (method.predictor == Predictor::sim_window) {
    all.insert(all.end(), kFurtherWidths.begin(), kFurtherWidths.end());
  }
  // From 2 n - 1 on a window is everything.
  std::erase_if(all, [positions](std::int64_t width) { return width > 2 * positions - 1; });
  return all;
}

}  // namespace scaling
