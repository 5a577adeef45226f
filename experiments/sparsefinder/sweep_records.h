// What records hold of a sweep: a line a configuration, its windows in a table, and a method's
// frontier, with intervals over sequences.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/sparsefinder/sweep.h"
#include "experiments/study/point.h"
#include "models/sparsefinder/frontier.h"

namespace scaling {

/// Sparsities at which frontiers are read, and the interval of their area.
inline constexpr int kPercents[] = {50, 60, 70, 80, 90, 95};
inline constexpr double kAreaLow = 0.5, kAreaHigh = 0.95;
/// Written last of a method: the frontier's area.
inline constexpr const char* kClosingSweepMetric = "area";

/// One configuration's numbers.
struct ConfigurationRecord {
  Metric recall;  ///< the mean of each sequence, without a window
  nlohmann::ordered_json config;
  /// Columns: width, the means of GraphScores::fields, and for recall, sparsity and mass_recall the
  /// ends of their 95 % intervals; a row a window.
  nlohmann::ordered_json samples;
};
/// points: of one configuration. shares: of frontier.h's resampled_shares over the sequences.
ConfigurationRecord configuration_record(const std::vector<SweepPoint>& points, const Mat& shares);

/// Recall, and mass recall, of a method's frontier at kPercents and at the gold sparsity, and the
/// area of the former at the end: each with its 95 % interval in `config`.
struct FrontierRecord {
  std::vector<Metric> metrics;
  nlohmann::ordered_json config;
};
FrontierRecord frontier_record(const std::vector<SweepPoint>& points, double gold_sparsity,
                               const Mat& shares);

/// (points, sequences, GraphScores::fields), row-major, for comparisons in pairs.
std::vector<float> score_tensor(const std::vector<SweepPoint>& points);

}  // namespace scaling
