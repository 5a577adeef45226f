// Heads of all examples are shared among the threads. A head's queries meet its keys tile by tile,
// without tiles that the pattern leaves out whole, and what a tile's scores become is made again by
// backward: so they stay in cache.
#include "models/layers/attention/tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/attention_graphs.h"
#include "models/layers/attention/head_pairs.h"
#include "models/layers/attention/head_rows.h"
#include "models/layers/attention/tile_plan.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;

constexpr float kMasked = -1e9f;
/// Logit of keys that are left out: below whatever is masked.
constexpr float kNever = -1e30f;

/// A graph that was given, as parts of the pattern.
class GivenPairs : public HeadPairs {
 public:
  GivenPairs(const Pattern& pattern, HeadGraph graph)
      : pattern_(pattern), graph_(std::move(graph)) {}
  std::int64_t decisions(std::int64_t) const override { return 0; }
  void choose(std::int64_t, const Mat&, const Mat&, const std::uint8_t*, std::int32_t*) override {}
  void load(const PatternCall& call, const std::int32_t*) override {
    SCALING_CHECK(graph_.positions() == call.keys && call.queries == call.keys);
  }
  const Pattern& pattern() const override { return pattern_; }
  bool hides(const Pattern::Part&) const override { return true; }
  void show(const PatternCall&, const Pattern::Part& part, std::int64_t i, Range keys,
            std::uint64_t* bits) const override {
    const std::int64_t query = part.queries.at(i);
    std::fill_n(bits, (keys.size() + 63) / 64, std::uint64_t(0));
    for (std::int64_t j = 0; j < keys.size(); ++j) {
      const bool meets = graph_.has(query, part.keys.at(keys.begin + j));
      bits[j / 64] |= std::uint64_t(meets) << (j % 64);
    }
  }

 private:
  const Pattern& pattern_;
  HeadGraph graph_;
};

/// What a row of a tile shows of keys that its pattern would: a range, and which of it.
struct Shown {
  Range keys;                  // counted from the tile's first; from the first to the last shown
  std::int64_t bits_from = 0;  // the key of the first bit
  std::array<std::uint64_t, kKeysAtOnce / 64> bits;

  bool has(std::int64_t key) const {
    const std::int64_t bit = key - bits_from;
    return (bits[std::size_t(bit / 64)] >> (bit % 64) & 1) != 0;
  }
};

/// One thread's buffers for one example and head.
struct Buffers {
  HeadRows q, k, v, o, dout, dq, dk, dv;
  Mat scores, gradient;             // of a tile
  std::vector<float> sums, deltas;  // of queries
  TilePlan plan;
  std::vector<std::uint8_t> seen;  // of a tile's keys, if these are no neighbours
  /// Of each query of a group, logits that may be above the threshold. Of a pattern that visits
  /// queries in an order of its own all queries', so at worst a number for each of its pairs.
  std::vector<std::vector<float>> candidates;
  std::vector<float> slopes;  // of a row of a tile
  std::unique_ptr<HeadPairs> pairs;
  const void* pairs_of = nullptr;  // who made them: several layers may share activations
  /// Of the tile at hand, if its part hides some of what the pattern shows.
  bool hides = false;
  std::vector<Shown> shown;
};

struct AttentionActivations : Activations {
  /// (examples * heads, queries): the largest unscaled logit, and one over the sum of exp(logit -
  /// the largest), or the threshold.
  std::vector<float> largest, statistics;
  Mat o;                          ///< the last result, (rows, heads * d_head)
  std::vector<double> pairs_met;  ///< (examples * heads), where pairs are chosen
  /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
  std::vector<Buffers> buffers;
};

/// One head of one example in a call.
struct Head {
  const Pass& pass;
  const Pattern* pattern;
  const ThresholdNormaliser* normaliser;
  std::uint64_t stream;
  const std::uint8_t* seen;  // keys, or null
  PatternCall call;
  std::int64_t d;
  std::int64_t pair;                 // example * the layer's heads + head
  std::int64_t own;                  // the same of these heads alone
  float* largest;                    // (queries)
  float* statistics;                 // (queries)
  const HeadPairs* pairs = nullptr;  // null: all that the pattern shows
  float scale() const { return 1 / std::sqrt(float(d)); }
};

/// Drops out values of a tile's keys; forward and backward alike. With several parts each has
/// numbers of its own, since a key's index there is not its position.
void drop_row(const Head& head, const Buffers& b, const Tile& tile, std::int64_t query, Range keys,
              float* row) {
  const std::int64_t parts = std::int64_t(b.plan.parts.all.size()), n = head.call.keys;
  const std::int64_t first =
      ((head.pair * head.call.queries + query) * parts + tile.part) * n + tile.keys.begin;
  drop(head.pass, head.stream, first + keys.begin, keys.size(), row + keys.begin);
}

const Positions& queries_of(const Buffers& b, const Tile& tile) {
  return b.plan.part_of(tile).queries;
}

const Positions& keys_of(const Buffers& b, const Tile& tile) { return b.plan.part_of(tile).keys; }

/// Keys that the pattern shows to a tile's i-th query, counted from the tile's first.
Range of_pattern(const Head& head, const Buffers& b, const Tile& tile, std::int64_t i) {
  const Range all = head.pattern->visible(head.call, b.plan.part_of(tile), tile.queries.begin + i);
  const std::int64_t begin = std::clamp(all.begin, tile.keys.begin, tile.keys.end);
  const std::int64_t end = std::clamp(all.end, begin, tile.keys.end);
  return end > begin ? Range{begin - tile.keys.begin, end - tile.keys.begin} : Range{0, 0};
}

/// Keys that a tile's i-th query may look at; where some are hidden, from the first to the last
/// that is not.
Range visible(const Head& head, const Buffers& b, const Tile& tile, std::int64_t i) {
  return b.hides ? b.shown[std::size_t(i)].keys : of_pattern(head, b, tile, i);
}

/// Has to be called before a tile is worked on.
void enter(const Head& head, const Tile& tile, Buffers& b) {
  const Pattern::Part& part = b.plan.part_of(tile);
  b.hides = head.pairs && head.pairs->hides(part);
  if (!b.hides) return;
  b.shown.resize(std::size_t(kQueriesAtOnce));
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    Shown& row = b.shown[std::size_t(i)];
    const Range keys = of_pattern(head, b, tile, i);
    row.keys = {0, 0};
    row.bits_from = keys.begin;
    if (keys.size() == 0) continue;
    const Range of_part = {tile.keys.begin + keys.begin, tile.keys.begin + keys.end};
    head.pairs->show(head.call, part, tile.queries.begin + i, of_part, row.bits.data());
    const std::int64_t words = (keys.size() + 63) / 64;
    std::int64_t first = 0, last = words - 1;
    while (first < words && row.bits[std::size_t(first)] == 0) ++first;
    if (first == words) continue;
    while (row.bits[std::size_t(last)] == 0) --last;
    const int before = std::countr_zero(row.bits[std::size_t(first)]);
    const int after = std::countl_zero(row.bits[std::size_t(last)]);
    row.keys = {keys.begin + 64 * first + before, keys.begin + 64 * (last + 1) - after};
  }
}

/// Takes tiles out of the plan in which nobody meets; returns how many pairs meet in the rest.
double leave_tiles_out(const Head& head, Buffers& b) {
  double pairs = 0;
  std::erase_if(b.plan.tiles, [&](const Tile& tile) {
    enter(head, tile, b);
    const double before = pairs;
    for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
      const Range keys = visible(head, b, tile, i);
      if (!b.hides) {
        pairs += double(keys.size());
        continue;
      }
      for (std::int64_t j = keys.begin; j < keys.end; ++j) {
        pairs += double(b.shown[std::size_t(i)].has(j));
      }
    }
    return pairs == before;
  });
  return pairs;
}

/// Hides keys between those that are shown.
void leave_out(const Buffers& b, std::int64_t i, float* row) {
  if (!b.hides) return;
  const Shown& shown = b.shown[std::size_t(i)];
  for (std::int64_t j = shown.keys.begin; j < shown.keys.end; ++j) {
    row[j] = shown.has(j) ? row[j] : kNever;
  }
}

/// Of the tile's keys; null: all are seen.
const std::uint8_t* seen_in(const Head& head, const Tile& tile, Buffers& b) {
  if (!head.seen) return nullptr;
  const Positions& keys = keys_of(b, tile);
  if (keys.are_neighbours(tile.keys)) return head.seen + keys.at(tile.keys.begin);
  b.seen.resize(std::size_t(tile.keys.size()));
  for (std::size_t j = 0; j < b.seen.size(); ++j) {
    b.seen[j] = head.seen[keys.at(tile.keys.begin + std::int64_t(j))];
  }
  return b.seen.data();
}

/// Those keys of a row and what shares whole vectors with them.
Row vectors_of(Range keys, float* row) {
  const std::int64_t first = keys.begin / 16 * 16;
  return {row + first, padded(keys.end) - first};
}

/// left (queries, d) right^T (keys, d).
void multiply(const Head& head, const Tile& tile, const float* left, const float* right,
              Mat& scores) {
  head.pass.gemm.product(false, true, tile.queries.size(), tile.keys.size(), head.d, left, head.d,
                         right, head.d, 0, scores.data(), scores.cols());
}

void product_of_keys(const Head& head, const Tile& tile, Buffers& b, HeadRows& queries,
                     HeadRows& keys, Mat& scores) {
  multiply(head, tile, queries.take(queries_of(b, tile), tile.queries),
           keys.take(keys_of(b, tile), tile.keys), scores);
}

/// Replaces logits of padding, and hides what shares vectors with the row's keys.
void mask_row(const std::uint8_t* seen, Range keys, float* row) {
  for (std::int64_t j = keys.begin; seen && j < keys.end; ++j) row[j] = seen[j] ? row[j] : kMasked;
  std::fill(row + keys.begin / 16 * 16, row + keys.begin, kNever);
  std::fill(row + keys.end, row + padded(keys.end), kNever);
}

/// Zero but for the keys.
void clear_others(const Tile& tile, Range keys, float* row) {
  std::fill(row, row + keys.begin, 0.0f);
  std::fill(row + keys.end, row + std::max(padded(keys.end), tile.keys.size()), 0.0f);
}

/// Zero where exp, vectorised, has left almost nothing.
void clear_row(const std::uint8_t* seen, const Tile& tile, Range keys, float largest, float* row) {
  for (std::int64_t j = keys.begin; seen && largest > kMasked && j < keys.end; ++j) {
    row[j] = seen[j] ? row[j] : 0.0f;
  }
  clear_others(tile, keys, row);
}

/// Scores to exp(logit - the largest so far), dropped out; what was summed before a larger one came
/// is scaled down.
void softmax(const Head& head, const Tile& tile, Buffers& b) {
  const std::uint8_t* seen = seen_in(head, tile, b);
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const std::int64_t query = b.plan.query(tile, i);
    const Range keys = visible(head, b, tile, i);
    float* scores = b.scores.row(i).data();
    float& largest = head.largest[query];
    Row row = vectors_of(keys, scores);
    if (keys.size() > 0) {
      mask_row(seen, keys, scores);
      leave_out(b, i, scores);
      const float before = largest;
      largest = std::max(before, row.maxCoeff());
      if (largest > before) {
        const float factor = std::exp((before - largest) * head.scale());
        b.sums[std::size_t(query)] *= factor;
        b.o.all.row(query) *= factor;
      }
      row = ((row - largest) * head.scale()).exp();
    }
    clear_row(seen, tile, keys, largest, scores);
    b.sums[std::size_t(query)] += row.sum();
    drop_row(head, b, tile, query, keys, scores);
  }
}

void mix_values(const Head& head, const Tile& tile, Buffers& b) {
  b.o.add_product(head.pass.gemm, false, b.scores.data(), b.scores.cols(),
                  b.v.take(keys_of(b, tile), tile.keys), tile.keys.size(), queries_of(b, tile),
                  tile.queries);
}

/// One pass: what was mixed before a larger logit came is rescaled.
void forward_of_softmax(const Head& head, Buffers& b) {
  b.sums.assign(std::size_t(head.call.queries), 0.0f);
  for (const Tile& tile : b.plan.tiles) {
    enter(head, tile, b);
    product_of_keys(head, tile, b, b.q, b.k, b.scores);
    softmax(head, tile, b);
    mix_values(head, tile, b);
  }
  for (std::int64_t query = 0; query < head.call.queries; ++query) {
    const float sum = b.sums[std::size_t(query)];
    head.statistics[query] = sum > 0 ? 1 / sum : 0.0f;
    b.o.all.row(query) *= head.statistics[query];
  }
}

/// Logits of a tile that may end above the threshold, as far as the largest is known. first: query
/// of the group.
void collect_candidates(const Head& head, const Tile& tile, std::int64_t first, Buffers& b) {
  const std::uint8_t* seen = seen_in(head, tile, b);
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const Range keys = visible(head, b, tile, i);
    if (keys.size() == 0) continue;
    const std::int64_t query = b.plan.query(tile, i);
    float* row = b.scores.row(i).data();
    mask_row(seen, keys, row);
    leave_out(b, i, row);
    float& largest = head.largest[query];
    largest = std::max(largest, vectors_of(keys, row).maxCoeff());
    const float least = largest + head.normaliser->lowest() / head.scale();
    std::vector<float>& candidates = b.candidates[std::size_t(query - first)];
    for (std::int64_t j = keys.begin; j < keys.end; ++j) {
      if (row[j] >= least) candidates.push_back(row[j]);
    }
  }
}

/// Threshold of one query all of whose keys have been met.
void find_threshold(const Head& head, std::int64_t query, std::vector<float>& logits) {
  const float largest = head.largest[query];
  for (float& logit : logits) logit = (logit - largest) * head.scale();
  const auto end = std::remove_if(logits.begin(), logits.end(),
                                  [&](float z) { return z < head.normaliser->lowest(); });
  head.statistics[query] = head.normaliser->threshold(logits.data(), end - logits.begin());
}

/// A row's logits, masked, to probabilities, once the row's statistic is known.
void probabilities(const Head& head, const std::uint8_t* seen, const Tile& tile, Range keys,
                   std::int64_t query, float* scores) {
  const float largest = head.largest[query], statistic = head.statistics[query];
  Row row = vectors_of(keys, scores);
  if (head.normaliser) {
    row = (row - largest) * head.scale();
    head.normaliser->apply(statistic, row.data(), row.size());
  } else {
    row = ((row - largest) * head.scale()).exp() * statistic;
  }
  clear_row(seen, tile, keys, largest, scores);
}

/// Two passes over the keys of each group of queries: for the threshold, and to mix values.
void forward_by_threshold(const Head& head, Buffers& b) {
  const std::vector<Tile>& tiles = b.plan.tiles;
  const std::int64_t size = b.plan.group_size;
  if (b.candidates.size() < std::size_t(size)) b.candidates.resize(std::size_t(size));
  for (std::size_t first = 0, next = 0; first < tiles.size(); first = next) {
    const std::int64_t query = tiles[first].group * size;
    const std::int64_t queries = std::min(size, head.call.queries - query);
    for (std::int64_t i = 0; i < queries; ++i) b.candidates[std::size_t(i)].clear();
    for (; next < tiles.size() && tiles[next].group == tiles[first].group; ++next) {
      enter(head, tiles[next], b);
      product_of_keys(head, tiles[next], b, b.q, b.k, b.scores);
      collect_candidates(head, tiles[next], query, b);
    }
    for (std::int64_t i = 0; i < queries; ++i) {
      find_threshold(head, query + i, b.candidates[std::size_t(i)]);
    }
    for (std::size_t at = first; at < next; ++at) {
      const Tile& tile = tiles[at];
      // A single tile's logits are still there, masked.
      if (next - first > 1) {
        enter(head, tile, b);
        product_of_keys(head, tile, b, b.q, b.k, b.scores);
      }
      const std::uint8_t* seen = seen_in(head, tile, b);
      for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
        const Range keys = visible(head, b, tile, i);
        float* scores = b.scores.row(i).data();
        mask_row(seen, keys, scores);
        leave_out(b, i, scores);
        probabilities(head, seen, tile, keys, b.plan.query(tile, i), scores);
        drop_row(head, b, tile, b.plan.query(tile, i), keys, scores);
      }
      mix_values(head, tile, b);
    }
  }
}

/// Returns how many pairs met, where they are chosen.
double forward_of_head(const Head& head, Buffers& b) {
  std::fill_n(head.largest, head.call.queries, -std::numeric_limits<float>::infinity());
  b.o.all.setZero(head.call.queries, head.d);
  b.plan.make(*head.pattern, head.call);
  const double pairs = head.pairs ? leave_tiles_out(head, b) : 0;
  if (head.normaliser) {
    forward_by_threshold(head, b);
  } else {
    forward_of_softmax(head, b);
  }
  return pairs;
}

/// Slopes of a row of probabilities up to the last key that it sees; softmax's are they themselves.
float* slopes_of(const Head& head, Range keys, float* p, Buffers& b) {
  if (!head.normaliser) return p;
  b.slopes.resize(std::size_t(b.scores.cols()));
  head.normaliser->slopes(p, b.slopes.data(), padded(keys.end));
  return b.slopes.data();
}

/// What is subtracted from each query's gradient: the sum of slopes times gradients over that of
/// slopes. Softmax has it without meeting the keys again: its slopes add up to 1.
void find_deltas(const Head& head, Buffers& b) {
  b.deltas.resize(std::size_t(head.call.queries));
  if (!head.normaliser) {
    for (std::int64_t query = 0; query < head.call.queries; ++query) {
      b.deltas[std::size_t(query)] = b.o.all.row(query).dot(b.dout.all.row(query));
    }
    return;
  }
  b.sums.assign(std::size_t(head.call.queries), 0.0f);
  std::fill(b.deltas.begin(), b.deltas.end(), 0.0f);
  for (const Tile& tile : b.plan.tiles) {
    enter(head, tile, b);
    product_of_keys(head, tile, b, b.q, b.k, b.scores);
    product_of_keys(head, tile, b, b.dout, b.v, b.gradient);
    const std::uint8_t* seen = seen_in(head, tile, b);
    for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
      const std::int64_t query = b.plan.query(tile, i);
      const Range keys = visible(head, b, tile, i);
      float* p = b.scores.row(i).data();
      float* gradient = b.gradient.row(i).data();
      mask_row(seen, keys, p);
      leave_out(b, i, p);
      probabilities(head, seen, tile, keys, query, p);
      const float* slopes = slopes_of(head, keys, p, b);
      drop_row(head, b, tile, query, keys, gradient);
      for (std::int64_t j = keys.begin; j < keys.end; ++j) {
        b.sums[std::size_t(query)] += slopes[j];
        b.deltas[std::size_t(query)] += slopes[j] * gradient[j];
      }
    }
  }
  for (std::size_t query = 0; query < b.deltas.size(); ++query) {
    if (b.sums[query] > 0) b.deltas[query] /= b.sums[query];
  }
}

/// Scores to probabilities after dropout, and the gradient of those to that of the products of
/// query and key.
void rows_backward(const Head& head, const Tile& tile, Buffers& b) {
  const std::uint8_t* seen = seen_in(head, tile, b);
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const std::int64_t query = b.plan.query(tile, i);
    const Range keys = visible(head, b, tile, i);
    float* scores = b.scores.row(i).data();
    float* gradient = b.gradient.row(i).data();
    mask_row(seen, keys, scores);
    leave_out(b, i, scores);
    probabilities(head, seen, tile, keys, query, scores);
    drop_row(head, b, tile, query, keys, gradient);
    clear_others(tile, keys, gradient);
    const Row s = vectors_of(keys, slopes_of(head, keys, scores, b));
    Row g = vectors_of(keys, gradient);
    g = s * (g - b.deltas[std::size_t(query)]) * head.scale();
    // A replaced logit passes nothing back, even where nothing else was there to look at.
    for (std::int64_t j = keys.begin; seen && j < keys.end; ++j) {
      gradient[j] = seen[j] ? gradient[j] : 0.0f;
    }
    drop_row(head, b, tile, query, keys, scores);
  }
}

void backward_of_head(const Head& head, Buffers& b) {
  b.gradient.resize(b.scores.rows(), b.scores.cols());
  b.dq.all.setZero(head.call.queries, head.d);
  b.dk.all.setZero(head.call.keys, head.d);
  b.dv.all.setZero(head.call.keys, head.d);
  b.plan.make(*head.pattern, head.call);
  if (head.pairs) leave_tiles_out(head, b);
  find_deltas(head, b);
  // Keys in the outer loop: theirs are the larger parts of tiles.
  b.plan.sort_by_keys();
  const Gemm& gemm = head.pass.gemm;
  const std::int64_t width = b.scores.cols();
  for (const Tile& tile : b.plan.tiles) {
    enter(head, tile, b);
    const Positions& of_queries = queries_of(b, tile);
    const Positions& of_keys = keys_of(b, tile);
    const float* q = b.q.take(of_queries, tile.queries);
    const float* k = b.k.take(of_keys, tile.keys);
    const float* dout = b.dout.take(of_queries, tile.queries);
    multiply(head, tile, q, k, b.scores);
    multiply(head, tile, dout, b.v.take(of_keys, tile.keys), b.gradient);
    rows_backward(head, tile, b);
    const std::int64_t queries = tile.queries.size(), keys = tile.keys.size();
    b.dv.add_product(gemm, true, b.scores.data(), width, dout, queries, of_keys, tile.keys);
    b.dq.add_product(gemm, false, b.gradient.data(), width, k, keys, of_queries, tile.queries);
    b.dk.add_product(gemm, true, b.gradient.data(), width, q, queries, of_keys, tile.keys);
  }
}

void own_pairs(const TiledAttention& layer, Buffers& b) {
  if (b.pairs && b.pairs_of == &layer) return;
  b.pairs = layer.make_pairs();
  b.pairs_of = &layer;
}

/// The head's pairs are those that the buffers' make of the decisions.
void take_pairs(Head& head, const std::int32_t* decisions, Buffers& b) {
  b.pairs->load(head.call, decisions);
  head.pairs = b.pairs.get();
  head.pattern = &b.pairs->pattern();
}

/// Rows of one example and columns of one head.
struct Part {
  std::int64_t row, column, rows, d;
  auto operator()(const Mat& all) const { return all.block(row, column, rows, d); }
  auto operator()(Mat& all) const { return all.block(row, column, rows, d); }
};

/// Where a head's columns are in what holds those of these heads alone.
Part among_own(const TiledAttention& layer, Part part) {
  part.column -= layer.first * part.d;
  return part;
}

/// body(head, its queries' part, its keys' part, buffers with its q, k and v) for all heads.
template <class Body>
void for_heads(const TiledAttention& layer, const Pass& pass, const Mat& q, const Mat& k,
               const Mat& v, const AttentionMask& mask, AttentionActivations& own, Body&& body) {
  const std::int64_t heads = layer.heads, all_heads = layer.all_heads();
  const std::int64_t queries = pass.length(q), keys = pass.length(k), d = layer.d_head;
  parallel_for(pass.examples * heads, [&](std::int64_t begin, std::int64_t end) {
    Buffers& b = own.buffers[std::size_t(begin)];
    b.scores.resize(kQueriesAtOnce, padded(std::min(kKeysAtOnce, keys)));
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const std::int64_t example = pair / heads, head_index = layer.first + pair % heads;
      const std::int64_t column = head_index * d;
      const Part of_queries = {example * queries, column, queries, d};
      const Part of_keys = {example * keys, column, keys, d};
      b.q.all = of_queries(q);
      b.k.all = of_keys(k);
      b.v.all = of_keys(v);
      const Head head = {.pass = pass,
                         .pattern = layer.pattern.get(),
                         .normaliser = layer.normaliser.get(),
                         .stream = own.stream,
                         .seen = mask.keys ? mask.keys + example * keys : nullptr,
                         .call = {.head = head_index,
                                  .queries = queries,
                                  .keys = keys,
                                  .causal = mask.causal,
                                  .streams = mask.streams},
                         .d = d,
                         .pair = example * all_heads + head_index,
                         .own = pair,
                         .largest = own.largest.data() + pair * queries,
                         .statistics = own.statistics.data() + pair * queries};
      body(head, of_queries, of_keys, b);
    }
  });
}

}  // namespace

double TiledAttention::pairs_met(const Activations& kept) const {
  const std::vector<double>& of_heads = static_cast<const AttentionActivations&>(kept).pairs_met;
  return std::accumulate(of_heads.begin(), of_heads.end(), 0.0);
}

std::unique_ptr<Activations> TiledAttention::make_activations() const {
  return std::make_unique<AttentionActivations>();
}

double TiledAttention::thread_floats(std::int64_t queries, std::int64_t keys) const {
  const std::int64_t rows = 4 * (queries + keys) * d_head + 2 * queries;
  return double(rows + 2 * kQueriesAtOnce * padded(std::min(kKeysAtOnce, keys)));
}

void TiledAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                             const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t queries = pass.length(q), keys = pass.length(k);
  const std::int64_t pairs = pass.examples * heads;
  SCALING_CHECK(q.rows() == pass.examples * queries && k.rows() == pass.examples * keys);
  SCALING_CHECK(v.rows() == k.rows() && (!mask.causal || queries == keys));
  SCALING_CHECK(q.cols() == all_heads() * d_head && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<AttentionActivations&>(kept);
  own.take_stream(pass);
  own.largest.resize(std::size_t(pairs * queries));
  own.statistics.resize(own.largest.size());
  if (own.buffers.size() < std::size_t(pairs)) own.buffers.resize(std::size_t(pairs));
  own.o.resize(q.rows(), heads * d_head);
  o.resize(q.rows(), q.cols());
  SCALING_CHECK(!pass.graphs || (!pass.training && pass.examples == 1 && queries == keys));
  SCALING_CHECK(!pass.graphs || !make_pairs);
  const std::int64_t attention = pass.graphs ? pass.attentions++ : 0;
  own.pairs_met.assign(pass.graphs || make_pairs ? std::size_t(pairs) : 0, 0.0);
  const std::int64_t decisions = make_pairs ? make_pairs()->decisions(queries) : 0;
  if (pass.recalls_decisions()) {
    SCALING_CHECK(own.chosen.size() == std::size_t(pairs * decisions));
  } else {
    own.chosen.resize(std::size_t(pairs * decisions));
  }
  for_heads(*this, pass, q, k, v, mask, own,
            [&](const Head& all, const Part& of_queries, const Part&, Buffers& b) {
              Head head = all;
              if (pass.graphs) {
                b.pairs = std::make_unique<GivenPairs>(
                    *pattern, pass.graphs->graph(attention, head.call.head, b.q.all, b.k.all));
                b.pairs_of = nullptr;
                take_pairs(head, nullptr, b);
              } else if (make_pairs) {
                own_pairs(*this, b);
                std::int32_t* chosen = own.chosen.data() + head.own * decisions;
                if (!pass.recalls_decisions()) {
                  b.pairs->choose(head.call.head, b.q.all, b.k.all, head.seen, chosen);
                }
                take_pairs(head, chosen, b);
              }
              const double met = forward_of_head(head, b);
              if (head.pairs) own.pairs_met[std::size_t(head.own)] = met;
              among_own(*this, of_queries)(own.o) = b.o.all;
              of_queries(o) = b.o.all;
            });
}

void TiledAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                              const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                              Mat& dk, Mat& dv) const {
  auto& own = static_cast<AttentionActivations&>(kept);
  SCALING_CHECK(std::int64_t(own.largest.size()) == q.rows() * heads && own.o.rows() == q.rows());
  SCALING_CHECK(do_.rows() == q.rows() && do_.cols() == q.cols() && !pass.graphs);
  const std::int64_t pairs = pass.examples * heads;
  const std::int64_t decisions = std::int64_t(own.chosen.size()) / pairs;
  dq.resize(q.rows(), q.cols());
  dk.resize(k.rows(), k.cols());
  dv.resize(k.rows(), k.cols());
  for_heads(*this, pass, q, k, v, mask, own,
            [&](const Head& all, const Part& of_queries, const Part& of_keys, Buffers& b) {
              Head head = all;
              if (make_pairs) {
                own_pairs(*this, b);
                take_pairs(head, own.chosen.data() + head.own * decisions, b);
              }
              b.o.all = among_own(*this, of_queries)(std::as_const(own.o));
              b.dout.all = of_queries(do_);
              backward_of_head(head, b);
              of_queries(dq) = b.dq.all;
              of_keys(dk) = b.dk.all;
              of_keys(dv) = b.dv.all;
            });
}

}  // namespace scaling
