// One teacher's heads through every configuration of a method: what predictors learn from training
// sequences, and scores on held-out ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/instruments/teacher.h"
#include "experiments/sparsefinder/methods.h"
#include "models/sparsefinder/scores.h"

namespace scaling {

struct SweepSettings {
  ProjectionSettings projection;                            ///< its loss is that of the source
  std::int64_t cluster_points = 8192, cluster_rounds = 25;  ///< of a head's k-means
  /// Of sim_routing's centroids, which begin at random: rounds enough to forget it.
  double routing_decay = 0.999;
  std::int64_t routing_rounds = 25;
  GlobalTokens globals = GlobalTokens::first;
  std::uint64_t seed = 1;
};

/// What a head has learnt from one source's projections.
struct HeadModel {
  ProjectionMap map;
  double first_loss = 0, last_loss = 0;      ///< mean of the first and the last epoch; 0: none
  std::map<double, Mat> centroids, routing;  ///< by clusters
  std::map<double, float> thresholds;        ///< by density
};

/// Says how far something is: of so many.
using SweepWatch = std::function<void(const std::string& what, std::int64_t done, std::int64_t of)>;

/// Of every source the methods need: a model of each head. sequences: training ones. Throws
/// UserError for settings that nothing can be learnt with, and Interrupted.
std::map<Source, std::vector<HeadModel>> learn_heads(const TeacherPlan& plan,
                                                     const std::vector<SequenceHeads>& sequences,
                                                     const std::vector<Method>& methods,
                                                     const SweepSettings& settings,
                                                     const SweepWatch& watch);

/// Scores of one configuration with one window.
struct SweepPoint {
  Configuration configuration;
  std::int64_t width = 0;
  std::vector<GraphScores> sequences;  ///< of each a mean over heads
  std::vector<GraphScores> heads;      ///< of each a mean over sequences
  GraphScores mean;
};

class Sweep {
 public:
  /// Gold graphs of the held-out sequences. All of it outlives this.
  Sweep(const TeacherPlan& plan, const std::vector<SequenceHeads>& sequences,
        const std::map<Source, std::vector<HeadModel>>& models, const SweepSettings& settings,
        const SweepWatch& watch);

  /// Every configuration with every window, windows innermost. The same for any number of threads.
  /// Throws Interrupted.
  std::vector<SweepPoint> run(const Method& method, const SweepWatch& watch) const;

  /// What a method says of a head's queries and keys, a graph for each of `wanted`; windows,
  /// globals and the mask are for the caller. sequence: for what is drawn.
  std::vector<Prediction> predict(const Method& method, const std::vector<Configuration>& wanted,
                                  const HeadSlice& q, const HeadSlice& k, std::int64_t sequence,
                                  std::int64_t head) const;

  const GoldGraph& gold(std::int64_t sequence, std::int64_t head) const;
  /// Mean over heads and sequences of 1 - gold pairs / legal pairs; of one head.
  double gold_sparsity() const;
  double gold_sparsity(std::int64_t head) const;

 private:
  std::vector<Prediction> predict_each(const Method& method,
                                       const std::vector<Configuration>& wanted, const Mat& q,
                                       const Mat& k, std::int64_t sequence,
                                       std::int64_t head) const;

  const TeacherPlan& plan_;
  const std::vector<SequenceHeads>& sequences_;
  const std::map<Source, std::vector<HeadModel>>& models_;
  const SweepSettings settings_;
  std::vector<GoldGraph> gold_;  ///< (sequences, heads)
};

}  // namespace scaling
