// Heads of all examples are shared among the threads. A head's queries meet its keys tile by tile,
// without tiles that the pattern leaves out whole, and what a tile's scores become is made again by
// backward: so they stay in cache.
#include "models/layers/attention/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;

constexpr std::int64_t kQueriesAtOnce = 64, kKeysAtOnce = 512;
constexpr float kMasked = -1e9f;
/// Logit of keys that are left out: below whatever is masked.
constexpr float kNever = -1e30f;

/// Some queries and some keys, from the first of each on.
struct Tile {
  std::int64_t query, queries, key, keys;
};

/// One thread's buffers for one example and head.
struct Buffers {
  Mat q, k, v, o, dout, dq, dk, dv;  // (queries or keys, d_head)
  Mat scores, gradient;              // of a tile
  std::vector<float> sums, deltas;   // of queries
  std::vector<Tile> tiles;           // those of a query together, keys ascending
  std::vector<Range> ranges;
  std::vector<std::vector<float>> candidates;  // logits that may be above the threshold
  std::vector<float> slopes;                   // of a row of a tile
};

struct AttentionActivations : Activations {
  /// (examples * heads, queries): the largest unscaled logit, and one over the sum of exp(logit -
  /// the largest), or the threshold.
  std::vector<float> largest, statistics;
  Mat o;  ///< the last result
  /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
  std::vector<Buffers> buffers;
};

/// One head of one example in a call.
struct Head {
  const Pass& pass;
  const Pattern& pattern;
  const ThresholdNormaliser* normaliser;
  std::uint64_t stream;
  const std::uint8_t* seen;  // keys, or null
  bool causal;
  std::int64_t queries, keys, d;
  std::int64_t pair;  // example * heads + head
  float* largest;     // (queries)
  float* statistics;  // (queries)
  float scale() const { return 1 / std::sqrt(float(d)); }
  void drop_row(std::int64_t query, std::int64_t key, std::int64_t n, float* values) const {
    drop(pass, stream, (pair * queries + query) * keys + key, n, values);
  }
};

/// To b.tiles.
void plan(const Head& head, Buffers& b) {
  b.tiles.clear();
  for (std::int64_t query = 0; query < head.queries; query += kQueriesAtOnce) {
    const std::int64_t n = std::min(kQueriesAtOnce, head.queries - query);
    b.ranges.clear();
    head.pattern.keys_of({query, query + n}, head.keys, head.causal, b.ranges);
    for (const Range& range : b.ranges) {
      for (std::int64_t key = range.begin; key < range.end; key += kKeysAtOnce) {
        b.tiles.push_back({query, n, key, std::min(kKeysAtOnce, range.end - key)});
      }
    }
  }
}

/// Keys that a tile's i-th query may look at, counted from the tile's first.
Range visible(const Head& head, const Tile& tile, std::int64_t i) {
  const Range keys =
      head.pattern.visible(tile.query + i, {tile.key, tile.key + tile.keys}, head.causal);
  return keys.end > keys.begin ? Range{keys.begin - tile.key, keys.end - tile.key} : Range{0, 0};
}

/// Those keys of a row and what shares whole vectors with them.
Row vectors_of(Range keys, float* row) {
  const std::int64_t first = keys.begin / 16 * 16;
  return {row + first, padded(keys.end) - first};
}

void product_of_keys(const Head& head, const Tile& tile, const Mat& queries, const Mat& keys,
                     Mat& scores) {
  head.pass.gemm.product(false, true, tile.queries, tile.keys, head.d,
                         queries.row(tile.query).data(), head.d, keys.row(tile.key).data(), head.d,
                         0, scores.data(), scores.cols());
}

/// Replaces logits of padding, and hides what shares vectors with the row's keys.
void mask_row(const Head& head, const Tile& tile, Range keys, float* row) {
  const std::uint8_t* seen = head.seen ? head.seen + tile.key : nullptr;
  for (std::int64_t j = keys.begin; seen && j < keys.end; ++j) row[j] = seen[j] ? row[j] : kMasked;
  std::fill(row + keys.begin / 16 * 16, row + keys.begin, kNever);
  std::fill(row + keys.end, row + padded(keys.end), kNever);
}

/// Zero but for the keys.
void clear_others(const Tile& tile, Range keys, float* row) {
  std::fill(row, row + keys.begin, 0.0f);
  std::fill(row + keys.end, row + std::max(padded(keys.end), tile.keys), 0.0f);
}

/// Zero where exp, vectorised, has left almost nothing.
void clear_row(const Head& head, const Tile& tile, Range keys, float largest, float* row) {
  const std::uint8_t* seen = head.seen ? head.seen + tile.key : nullptr;
  for (std::int64_t j = keys.begin; seen && largest > kMasked && j < keys.end; ++j) {
    row[j] = seen[j] ? row[j] : 0.0f;
  }
  clear_others(tile, keys, row);
}

/// Scores to exp(logit - the largest so far), dropped out; what was summed before a larger one came
/// is scaled down.
void softmax(const Head& head, const Tile& tile, Buffers& b) {
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t query = tile.query + i;
    const Range keys = visible(head, tile, i);
    float* scores = b.scores.row(i).data();
    float& largest = head.largest[query];
    Row row = vectors_of(keys, scores);
    if (keys.size() > 0) {
      mask_row(head, tile, keys, scores);
      const float before = largest;
      largest = std::max(before, row.maxCoeff());
      if (largest > before) {
        const float factor = std::exp((before - largest) * head.scale());
        b.sums[std::size_t(query)] *= factor;
        b.o.row(query) *= factor;
      }
      row = ((row - largest) * head.scale()).exp();
    }
    clear_row(head, tile, keys, largest, scores);
    b.sums[std::size_t(query)] += row.sum();
    head.drop_row(query, tile.key + keys.begin, keys.size(), scores + keys.begin);
  }
}

void mix_values(const Head& head, const Tile& tile, Buffers& b) {
  head.pass.gemm.product(false, false, tile.queries, head.d, tile.keys, b.scores.data(),
                         b.scores.cols(), b.v.row(tile.key).data(), head.d, 1,
                         b.o.row(tile.query).data(), head.d);
}

/// One pass: what was mixed before a larger logit came is rescaled.
void forward_of_softmax(const Head& head, Buffers& b) {
  b.sums.assign(std::size_t(head.queries), 0.0f);
  for (const Tile& tile : b.tiles) {
    product_of_keys(head, tile, b.q, b.k, b.scores);
    softmax(head, tile, b);
    mix_values(head, tile, b);
  }
  for (std::int64_t query = 0; query < head.queries; ++query) {
    const float sum = b.sums[std::size_t(query)];
    head.statistics[query] = sum > 0 ? 1 / sum : 0.0f;
    b.o.row(query) *= head.statistics[query];
  }
}

/// Logits of a tile that may end above the threshold, as far as the largest is known.
void collect_candidates(const Head& head, const Tile& tile, Buffers& b) {
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const Range keys = visible(head, tile, i);
    if (keys.size() == 0) continue;
    float* row = b.scores.row(i).data();
    mask_row(head, tile, keys, row);
    float& largest = head.largest[tile.query + i];
    largest = std::max(largest, vectors_of(keys, row).maxCoeff());
    const float least = largest + head.normaliser->lowest() / head.scale();
    for (std::int64_t j = keys.begin; j < keys.end; ++j) {
      if (row[j] >= least) b.candidates[std::size_t(i)].push_back(row[j]);
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
void probabilities(const Head& head, const Tile& tile, Range keys, std::int64_t query,
                   float* scores) {
  const float largest = head.largest[query], statistic = head.statistics[query];
  Row row = vectors_of(keys, scores);
  if (head.normaliser) {
    row = (row - largest) * head.scale();
    head.normaliser->apply(statistic, row.data(), row.size());
  } else {
    row = ((row - largest) * head.scale()).exp() * statistic;
  }
  clear_row(head, tile, keys, largest, scores);
}

/// Two passes over the keys of each group of queries: for the threshold, and to mix values.
void forward_by_threshold(const Head& head, Buffers& b) {
  b.candidates.resize(std::size_t(kQueriesAtOnce));
  for (std::size_t first = 0, next = 0; first < b.tiles.size(); first = next) {
    for (auto& logits : b.candidates) logits.clear();
    const Tile& group = b.tiles[first];
    for (; next < b.tiles.size() && b.tiles[next].query == group.query; ++next) {
      product_of_keys(head, b.tiles[next], b.q, b.k, b.scores);
      collect_candidates(head, b.tiles[next], b);
    }
    for (std::int64_t i = 0; i < group.queries; ++i) {
      find_threshold(head, group.query + i, b.candidates[std::size_t(i)]);
    }
    for (std::size_t at = first; at < next; ++at) {
      const Tile& tile = b.tiles[at];
      // A single tile's logits are still there, masked.
      if (next - first > 1) product_of_keys(head, tile, b.q, b.k, b.scores);
      for (std::int64_t i = 0; i < tile.queries; ++i) {
        const Range keys = visible(head, tile, i);
        float* scores = b.scores.row(i).data();
        mask_row(head, tile, keys, scores);
        probabilities(head, tile, keys, tile.query + i, scores);
        head.drop_row(tile.query + i, tile.key + keys.begin, keys.size(), scores + keys.begin);
      }
      mix_values(head, tile, b);
    }
  }
}

void forward_of_head(const Head& head, Buffers& b) {
  std::fill_n(head.largest, head.queries, -std::numeric_limits<float>::infinity());
  b.o.setZero(head.queries, head.d);
  plan(head, b);
  if (head.normaliser) {
    forward_by_threshold(head, b);
  } else {
    forward_of_softmax(head, b);
  }
}

/// Slopes of a row of probabilities; softmax's are they themselves.
float* slopes_of(const Head& head, const Tile& tile, float* p, Buffers& b) {
  if (!head.normaliser) return p;
  b.slopes.resize(std::size_t(b.scores.cols()));
  head.normaliser->slopes(p, b.slopes.data(), padded(tile.keys));
  return b.slopes.data();
}

/// What is subtracted from each query's gradient: the sum of slopes times gradients over that of
/// slopes. Softmax has it without meeting the keys again: its slopes add up to 1.
void find_deltas(const Head& head, Buffers& b) {
  b.deltas.resize(std::size_t(head.queries));
  if (!head.normaliser) {
    for (std::int64_t query = 0; query < head.queries; ++query) {
      b.deltas[std::size_t(query)] = b.o.row(query).dot(b.dout.row(query));
    }
    return;
  }
  b.sums.assign(std::size_t(head.queries), 0.0f);
  std::fill(b.deltas.begin(), b.deltas.end(), 0.0f);
  for (const Tile& tile : b.tiles) {
    product_of_keys(head, tile, b.q, b.k, b.scores);
    product_of_keys(head, tile, b.dout, b.v, b.gradient);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const std::int64_t query = tile.query + i;
      const Range keys = visible(head, tile, i);
      float* p = b.scores.row(i).data();
      float* gradient = b.gradient.row(i).data();
      mask_row(head, tile, keys, p);
      probabilities(head, tile, keys, query, p);
      const float* slopes = slopes_of(head, tile, p, b);
      head.drop_row(query, tile.key + keys.begin, keys.size(), gradient + keys.begin);
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
  const std::uint8_t* seen = head.seen ? head.seen + tile.key : nullptr;
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t query = tile.query + i;
    const Range keys = visible(head, tile, i);
    float* scores = b.scores.row(i).data();
    float* gradient = b.gradient.row(i).data();
    mask_row(head, tile, keys, scores);
    probabilities(head, tile, keys, query, scores);
    head.drop_row(query, tile.key + keys.begin, keys.size(), gradient + keys.begin);
    clear_others(tile, keys, gradient);
    const Row s = vectors_of(keys, slopes_of(head, tile, scores, b));
    Row g = vectors_of(keys, gradient);
    g = s * (g - b.deltas[std::size_t(query)]) * head.scale();
    // A replaced logit passes nothing back, even where nothing else was there to look at.
    for (std::int64_t j = keys.begin; seen && j < keys.end; ++j) {
      gradient[j] = seen[j] ? gradient[j] : 0.0f;
    }
    head.drop_row(query, tile.key + keys.begin, keys.size(), scores + keys.begin);
  }
}

void backward_of_head(const Head& head, Buffers& b) {
  b.gradient.resize(b.scores.rows(), b.scores.cols());
  b.dq.setZero(head.queries, head.d);
  b.dk.setZero(head.keys, head.d);
  b.dv.setZero(head.keys, head.d);
  plan(head, b);
  find_deltas(head, b);
  // Keys in the outer loop: theirs are the larger parts of tiles.
  std::sort(b.tiles.begin(), b.tiles.end(), [](const Tile& one, const Tile& other) {
    return std::pair(one.key, one.query) < std::pair(other.key, other.query);
  });
  const GemmFunction product = head.pass.gemm.product;
  const std::int64_t d = head.d, width = b.scores.cols();
  for (const Tile& tile : b.tiles) {
    const std::int64_t n = tile.queries, keys = tile.keys;
    product_of_keys(head, tile, b.q, b.k, b.scores);
    product_of_keys(head, tile, b.dout, b.v, b.gradient);
    rows_backward(head, tile, b);
    product(true, false, keys, d, n, b.scores.data(), width, b.dout.row(tile.query).data(), d, 1,
            b.dv.row(tile.key).data(), d);
    product(false, false, n, d, keys, b.gradient.data(), width, b.k.row(tile.key).data(), d, 1,
            b.dq.row(tile.query).data(), d);
    product(true, false, keys, d, n, b.gradient.data(), width, b.q.row(tile.query).data(), d, 1,
            b.dk.row(tile.key).data(), d);
  }
}

/// Rows of one example and columns of one head.
struct Part {
  std::int64_t row, column, rows, d;
  auto operator()(const Mat& all) const { return all.block(row, column, rows, d); }
  auto operator()(Mat& all) const { return all.block(row, column, rows, d); }
};

/// body(head, its queries' part, its keys' part, buffers with its q, k and v) for all heads.
template <class Body>
void for_heads(const TiledAttention& layer, const Pass& pass, const Mat& q, const Mat& k,
               const Mat& v, const AttentionMask& mask, AttentionActivations& own, Body&& body) {
  const std::int64_t heads = layer.heads;
  const std::int64_t queries = pass.length(q), keys = pass.length(k), d = q.cols() / heads;
  parallel_for(pass.examples * heads, [&](std::int64_t begin, std::int64_t end) {
    Buffers& b = own.buffers[std::size_t(begin)];
    b.scores.resize(kQueriesAtOnce, padded(std::min(kKeysAtOnce, keys)));
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const std::int64_t example = pair / heads, column = pair % heads * d;
      const Part of_queries = {example * queries, column, queries, d};
      const Part of_keys = {example * keys, column, keys, d};
      b.q = of_queries(q);
      b.k = of_keys(k);
      b.v = of_keys(v);
      const Head head = {.pass = pass,
                         .pattern = *layer.pattern,
                         .normaliser = layer.normaliser.get(),
                         .stream = own.stream,
                         .seen = mask.keys ? mask.keys + example * keys : nullptr,
                         .causal = mask.causal,
                         .queries = queries,
                         .keys = keys,
                         .d = d,
                         .pair = pair,
                         .largest = own.largest.data() + pair * queries,
                         .statistics = own.statistics.data() + pair * queries};
      body(head, of_queries, of_keys, b);
    }
  });
}

}  // namespace

std::unique_ptr<Activations> TiledAttention::make_activations() const {
  return std::make_unique<AttentionActivations>();
}

void TiledAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                             const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t queries = pass.length(q), keys = pass.length(k);
  const std::int64_t pairs = pass.examples * heads;
  SCALING_CHECK(q.rows() == pass.examples * queries && k.rows() == pass.examples * keys);
  SCALING_CHECK(v.rows() == k.rows() && (!mask.causal || queries == keys));
  SCALING_CHECK(q.cols() == heads * d_head && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<AttentionActivations&>(kept);
  own.take_stream(pass);
  own.largest.resize(std::size_t(pairs * queries));
  own.statistics.resize(own.largest.size());
  if (own.buffers.size() < std::size_t(pairs)) own.buffers.resize(std::size_t(pairs));
  own.o.resize(q.rows(), q.cols());
  o.resize(q.rows(), q.cols());
  for_heads(*this, pass, q, k, v, mask, own,
            [&](const Head& head, const Part& of_queries, const Part&, Buffers& b) {
              forward_of_head(head, b);
              of_queries(own.o) = b.o;
              of_queries(o) = b.o;
            });
}

void TiledAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                              const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                              Mat& dk, Mat& dv) const {
  auto& own = static_cast<AttentionActivations&>(kept);
  SCALING_CHECK(std::int64_t(own.largest.size()) == q.rows() * heads && own.o.rows() == q.rows());
  SCALING_CHECK(do_.rows() == q.rows() && do_.cols() == q.cols());
  dq.resize(q.rows(), q.cols());
  dk.resize(k.rows(), k.cols());
  dv.resize(k.rows(), k.cols());
  for_heads(*this, pass, q, k, v, mask, own,
            [&](const Head& head, const Part& of_queries, const Part& of_keys, Buffers& b) {
              b.o = of_queries(own.o);
              b.dout = of_queries(do_);
              backward_of_head(head, b);
              of_queries(dq) = b.dq;
              of_keys(dk) = b.dk;
              of_keys(dv) = b.dv;
            });
}

}  // namespace scaling
