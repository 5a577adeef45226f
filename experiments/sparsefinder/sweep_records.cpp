// Means, resampled means, and frontiers of resampled means.
#include "experiments/sparsefinder/sweep_records.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {
namespace {

using Member = double GraphScores::*;

struct Bootstrapped {
  const char* name;
  Member member;
};
constexpr Bootstrapped kBootstrapped[] = {{"recall", &GraphScores::recall},
                                          {"sparsity", &GraphScores::sparsity},
                                          {"mass_recall", &GraphScores::mass_recall}};

Eigen::VectorXf values_of(const SweepPoint& point, Member member) {
  Eigen::VectorXf values(std::int64_t(point.sequences.size()));
  for (std::int64_t i = 0; i < values.size(); ++i) {
    values[i] = float(point.sequences[std::size_t(i)].*member);
  }
  return values;
}

/// The mean of each draw.
std::vector<double> resampled(const SweepPoint& point, Member member, const Mat& shares) {
  const Eigen::VectorXf means = shares * values_of(point, member);
  return {means.data(), means.data() + means.size()};
}

nlohmann::ordered_json row_of(const SweepPoint& point, const Mat& shares) {
  nlohmann::ordered_json row = nlohmann::ordered_json::array();
  row.push_back(point.width);
  GraphScores::fields(point.mean, [&row](const char*, double value) { row.push_back(value); });
  for (const Bootstrapped& one : kBootstrapped) {
    const Interval interval = middle_95(resampled(point, one.member, shares));
    row.push_back(interval.low);
    row.push_back(interval.high);
  }
  return row;
}

nlohmann::ordered_json columns() {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  names.push_back("width");
  const GraphScores any;
  GraphScores::fields(any, [&names](const char* name, double) { names.push_back(name); });
  for (const Bootstrapped& one : kBootstrapped) {
    names.push_back(std::string(one.name) + "_low");
    names.push_back(std::string(one.name) + "_high");
  }
  return names;
}

/// Numbers of one frontier, in the order of metric_names.
std::vector<double> read_frontier(const Frontier& frontier, double gold_sparsity) {
  std::vector<double> values;
  for (const int percent : kPercents) values.push_back(frontier.at(percent / 100.0));
  values.push_back(frontier.at(gold_sparsity));
  values.push_back(frontier.area(kAreaLow, kAreaHigh));
  return values;
}

std::vector<std::string> metric_names(const std::string& quality) {
  std::vector<std::string> names;
  for (const int percent : kPercents) names.push_back(quality + "_at_" + std::to_string(percent));
  names.push_back(quality + "_at_gold");
  names.push_back(quality == "recall" ? kClosingSweepMetric : quality + "_" + kClosingSweepMetric);
  return names;
}

void add_frontier(const std::vector<SweepPoint>& points, double gold_sparsity, const Mat& shares,
                  const Bootstrapped& quality, FrontierRecord& record) {
  std::vector<SparsePoint> measured;
  for (const SweepPoint& point : points) {
    measured.push_back({point.mean.sparsity, point.mean.*quality.member});
  }
  const std::vector<double> values = read_frontier(Frontier(measured), gold_sparsity);
  const std::vector<std::string> names = metric_names(quality.name);
  const std::size_t draws = std::size_t(shares.rows());
  std::vector<std::vector<SparsePoint>> drawn(draws, std::vector<SparsePoint>(points.size()));
  for (std::size_t p = 0; p < points.size(); ++p) {
    const auto sparsities = resampled(points[p], &GraphScores::sparsity, shares);
    const auto qualities = resampled(points[p], quality.member, shares);
    for (std::size_t d = 0; d < draws; ++d) drawn[d][p] = {sparsities[d], qualities[d]};
  }
  std::vector<std::vector<double>> by_name(names.size());
  for (std::vector<SparsePoint>& one : drawn) {
    const std::vector<double> read = read_frontier(Frontier(std::move(one)), gold_sparsity);
    for (std::size_t i = 0; i < read.size(); ++i) by_name[i].push_back(read[i]);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Interval interval = middle_95(by_name[i]);
    record.metrics.push_back({names[i], "1", {values[i]}});
    record.config[names[i] + "_low"] = interval.low;
    record.config[names[i] + "_high"] = interval.high;
  }
}

}  // namespace

ConfigurationRecord configuration_record(const std::vector<SweepPoint>& points, const Mat& shares) {
  SCALING_CHECK(!points.empty());
  const Configuration& one = points.front().configuration;
  ConfigurationRecord record;
  record.config["grid"] = names_of(one.grid)[std::size_t(one.grid)];
  record.config["parameter"] = one.parameter;
  record.config["value"] = one.value;
  record.config["nearest"] = one.nearest;
  record.recall = {"recall", "1"};
  for (const GraphScores& scores : points.front().sequences) {
    record.recall.values.push_back(scores.recall);
  }
  record.samples["columns"] = columns();
  record.samples["rows"] = nlohmann::ordered_json::array();
  for (const SweepPoint& point : points) record.samples["rows"].push_back(row_of(point, shares));
  return record;
}

FrontierRecord frontier_record(const std::vector<SweepPoint>& points, double gold_sparsity,
                               const Mat& shares) {
  FrontierRecord record;
  add_frontier(points, gold_sparsity, shares, {"mass_recall", &GraphScores::mass_recall}, record);
  add_frontier(points, gold_sparsity, shares, {"recall", &GraphScores::recall}, record);
  return record;
}

std::vector<float> score_tensor(const std::vector<SweepPoint>& points) {
  std::vector<float> values;
  for (const SweepPoint& point : points) {
    for (const GraphScores& scores : point.sequences) {
      GraphScores::fields(scores,
                          [&values](const char*, double value) { values.push_back(float(value)); });
    }
  }
  return values;
}

}  // namespace scaling
