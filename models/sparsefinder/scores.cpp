// Pair by pair, and the same for nested windows at once.
#include "models/sparsefinder/scores.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/check.h"

namespace scaling {
namespace {

/// values[i] becomes the sum from i on; one more behind, 0.
template <class T>
void sum_from_behind(std::vector<T>& values) {
  values.push_back(0);
  for (std::size_t i = values.size() - 1; i-- > 0;) values[i] += values[i + 1];
}

double share(double part, double whole, double of_none) {
  return whole > 0 ? part / whole : of_none;
}

HeadGraph legal_globals(const GoldGraph& gold, GlobalTokens globals) {
  HeadGraph graph(gold.positions);
  add_globals(graph, globals);
  keep_legal(graph, gold.causal);
  return graph;
}

/// Legal keys of a window around a query; none if its reach is negative.
Range window_keys(std::int64_t positions, std::int64_t query, std::int64_t reach, bool causal) {
  if (reach < 0) return {};
  return {std::max<std::int64_t>(0, query - reach),
          std::min(legal_keys(positions, query, causal).end, query + reach + 1)};
}

}  // namespace

/// Gold pairs that a graph lacks.
struct WindowScorer::Missing {
  explicit Missing(std::int64_t positions)
      : pairs(std::size_t(positions)), queries(pairs), mass(std::size_t(positions)) {}
  std::vector<std::int64_t> pairs;    ///< by |query - key|
  std::vector<std::int64_t> queries;  ///< by the farthest gold key that they lack
  std::vector<double> mass;           ///< by |query - key|
};

GraphScores score_graph(const GoldGraph& gold, const HeadGraph& graph, double operations,
                        const BucketSizes& buckets) {
  const std::int64_t n = gold.positions;
  SCALING_CHECK(graph.positions() == n && n > 0);
  const HeadGraph gold_pairs = gold.graph();
  double pairs = 0, found = 0, exact = 0, mass = 0, empty = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double own = 0, own_gold = 0, own_found = 0;
    for (std::int64_t j = 0; j < legal_keys(n, i, gold.causal).end; ++j) {
      own += graph.has(i, j);
      own_gold += gold_pairs.has(i, j);
      own_found += graph.has(i, j) && gold_pairs.has(i, j);
    }
    for (std::size_t at = 0; at < gold.keys_of(i).size(); ++at) {
      if (graph.has(i, gold.keys_of(i)[at])) mass += double(gold.p_of(i)[at]);
    }
    pairs += own;
    found += own_found;
    exact += own_found == own_gold;
    empty += own == 0;
  }
  GraphScores scores;
  scores.recall = share(found, double(gold.pairs()), 1);
  scores.sparsity = 1 - pairs / double(legal_pairs(n, gold.causal));
  scores.precision = share(found, pairs, 1);
  scores.exact = exact / double(n);
  scores.mass_recall = mass / double(n);
  scores.empty_rows = empty / double(n);
  scores.computation_sparsity = 1 - operations / (double(n) * double(n));
  scores.bucket_entropy = buckets.entropy;
  scores.largest_bucket = buckets.largest;
  return scores;
}

WindowScorer::WindowScorer(const GoldGraph& gold, GlobalTokens globals,
                           std::span<const std::int64_t> widths)
    : gold_(gold),
      bits_(gold.graph()),
      legal_(legal_graph(gold.positions, gold.causal)),
      globals_(legal_globals(gold, globals)),
      below_(std::size_t(bits_.words()) + 1) {
  SCALING_CHECK(gold.positions > 0);
  for (const std::int64_t width : widths) reaches_.push_back(window_reach(width));
  for (const std::int64_t reach : reaches_) {
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < gold.positions; ++i) {
      pairs += window_keys(gold.positions, i, reach, gold.causal).size();
    }
    window_pairs_.push_back(pairs);
  }
  for (const float p : gold.p) all_mass_ += double(p);
}

WindowScorer::Missing WindowScorer::missing_of(const HeadGraph& graph) const {
  Missing missing(gold_.positions);
  for (std::int64_t i = 0; i < gold_.positions; ++i) {
    const std::uint64_t* const gold = bits_.row(i);
    const std::uint64_t* const there = graph.row(i);
    std::int64_t before = gold_.starts[std::size_t(i)];  // gold keys before this word
    std::int64_t farthest = -1;
    for (std::int64_t word = 0; word < graph.words(); ++word) {
      for (std::uint64_t left = gold[word] & ~there[word]; left != 0; left &= left - 1) {
        const std::int64_t key = 64 * word + std::countr_zero(left);
        const std::int64_t distance = std::abs(i - key);
        const std::uint64_t earlier = (left & -left) - 1;
        ++missing.pairs[std::size_t(distance)];
        missing.mass[std::size_t(distance)] +=
            double(gold_.p[std::size_t(before + std::popcount(gold[word] & earlier))]);
        farthest = std::max(farthest, distance);
      }
      before += std::popcount(gold[word]);
    }
    if (farthest >= 0) ++missing.queries[std::size_t(farthest)];
  }
  return missing;
}

/// To within_ and empty_.
void WindowScorer::count_windows(const HeadGraph& graph) {
  within_.assign(reaches_.size(), 0);
  empty_ = 0;
  for (std::int64_t i = 0; i < gold_.positions; ++i) {
    const std::uint64_t* const row = graph.row(i);
    for (std::int64_t word = 0; word < graph.words(); ++word) {
      below_[std::size_t(word) + 1] = below_[std::size_t(word)] + std::popcount(row[word]);
    }
    empty_ += below_.back() == 0;
    const auto pairs_before = [&](std::int64_t key) {
      // Of a key at the end of the row there is no word to look into.
      const std::int64_t word = key / 64, bit = key % 64;
      const std::int64_t whole = below_[std::size_t(word)];
      return bit == 0 ? whole : whole + std::popcount(row[word] & ((std::uint64_t(1) << bit) - 1));
    };
    for (std::size_t w = 0; w < reaches_.size(); ++w) {
      const Range near = window_keys(gold_.positions, i, reaches_[w], gold_.causal);
      within_[w] += pairs_before(near.end) - pairs_before(near.begin);
    }
  }
}

std::vector<GraphScores> WindowScorer::score(Prediction prediction) {
  const std::int64_t n = gold_.positions;
  HeadGraph& graph = prediction.graph;
  SCALING_CHECK(graph.positions() == n);
  graph &= legal_;
  double operations = prediction.operations - double(graph.pairs());
  graph |= globals_;
  const auto pairs = double(graph.pairs());
  operations += pairs;

  Missing missing = missing_of(graph);
  sum_from_behind(missing.pairs);
  sum_from_behind(missing.mass);
  sum_from_behind(missing.queries);
  count_windows(graph);

  std::vector<GraphScores> all;
  for (std::size_t w = 0; w < reaches_.size(); ++w) {
    const auto added = double(window_pairs_[w] - within_[w]);
    const auto beyond = std::size_t(std::min(n, reaches_[w] + 1));  // distances that stay missing
    const auto found = double(gold_.pairs() - missing.pairs[beyond]);
    GraphScores scores;
    scores.recall = share(found, double(gold_.pairs()), 1);
    scores.sparsity = 1 - (pairs + added) / double(legal_pairs(n, gold_.causal));
    scores.precision = share(found, pairs + added, 1);
    scores.exact = double(n - missing.queries[beyond]) / double(n);
    scores.mass_recall = (all_mass_ - missing.mass[beyond]) / double(n);
    // A window has the query itself at least.
    scores.empty_rows = reaches_[w] < 0 ? double(empty_) / double(n) : 0;
    scores.computation_sparsity = 1 - (operations + added) / (double(n) * double(n));
    scores.bucket_entropy = prediction.buckets.entropy;
    scores.largest_bucket = prediction.buckets.largest;
    all.push_back(scores);
  }
  return all;
}

GraphScores mean_of(std::span<const GraphScores> scores) {
  SCALING_CHECK(!scores.empty());
  std::array<double, kScoreFields> sums{};
  for (const GraphScores& one : scores) {
    std::size_t at = 0;
    GraphScores::fields(one, [&](const char*, double value) { sums[at++] += value; });
  }
  GraphScores mean;
  std::size_t at = 0;
  GraphScores::fields(
      mean, [&](const char*, double& value) { value = sums[at++] / double(scores.size()); });
  return mean;
}

}  // namespace scaling
