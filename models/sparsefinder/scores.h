// How well a predicted graph covers a head's gold graph, and at what price: each number by head and
// sequence, averages in the order that the authors of Sparsefinder take them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/sparsefinder/gold.h"
#include "models/sparsefinder/predictors.h"

namespace scaling {

/// Of one graph and one gold graph, or means of them. Pairs are legal ones.
struct GraphScores {
  double recall = 0;       ///< gold pairs that are in the graph
  double sparsity = 0;     ///< 1 - pairs of the graph / legal pairs
  double precision = 0;    ///< of the graph's pairs, those that are gold; 1 of no pairs
  double exact = 0;        ///< queries whose gold keys are all in the graph
  double mass_recall = 0;  ///< probability of the gold pairs that are in the graph, a query's mean
  double empty_rows = 0;   ///< queries without a key
  /// 1 - operations / positions^2: pairs that buckets make a program work through, padding and
  /// pairs that share several buckets counted as often; below 0 where they exceed all pairs.
  double computation_sparsity = 0;
  /// Of the prediction alone, as of BucketSizes.
  double bucket_entropy = 0, largest_bucket = 0;

  /// visit(name, value) of each, for means, records and tables.
  template <class Self, class Visitor>
  static void fields(Self& s, Visitor&& visit) {
    visit("recall", s.recall);
    visit("sparsity", s.sparsity);
    visit("precision", s.precision);
    visit("exact", s.exact);
    visit("mass_recall", s.mass_recall);
    visit("empty_rows", s.empty_rows);
    visit("computation_sparsity", s.computation_sparsity);
    visit("bucket_entropy", s.bucket_entropy);
    visit("largest_bucket", s.largest_bucket);
  }
};
inline constexpr std::size_t kScoreFields = 9;

/// As the definitions say, pair by pair; what WindowScorer is compared with. operations, buckets:
/// of the graph.
GraphScores score_graph(const GoldGraph& gold, const HeadGraph& graph, double operations,
                        const BucketSizes& buckets = {});

/// Scores of predictions for one gold graph, each united with the globals and with each of the
/// windows and cut to what is legal. Windows are nested, so that one look at a prediction serves
/// all of them: gold pairs that it lacks are sorted by how far they reach, and of its pairs those
/// within a window are counted by words. Whatever globals and window add counts as an operation
/// each.
class WindowScorer {
 public:
  /// gold outlives this. Throws UserError for an even width.
  WindowScorer(const GoldGraph& gold, GlobalTokens globals, std::span<const std::int64_t> widths);

  /// One a width.
  std::vector<GraphScores> score(Prediction prediction);

 private:
  struct Missing;
  Missing missing_of(const HeadGraph& graph) const;
  void count_windows(const HeadGraph& graph);

  const GoldGraph& gold_;
  const HeadGraph bits_, legal_;  ///< of the gold graph; legal pairs
  HeadGraph globals_;             ///< legal ones
  std::vector<std::int64_t> reaches_;
  double all_mass_ = 0;
  std::vector<std::int64_t> below_;                  ///< pairs of one row before each of its words
  std::vector<std::int64_t> within_, window_pairs_;  ///< by window: the graph's in it, all in it
  std::int64_t empty_ = 0;                           ///< rows of the graph
};

/// Unweighted.
GraphScores mean_of(std::span<const GraphScores> scores);

}  // namespace scaling
