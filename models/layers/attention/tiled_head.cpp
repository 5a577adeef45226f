// A head's queries meet its keys tile by tile, without tiles that the pattern leaves out whole, and
// what a tile's scores become is made again by backward: so they stay in cache.
#include "models/layers/attention/tiled_head.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::VectorXf>;

constexpr float kMasked = -1e9f;
/// Logit of keys that are left out: below whatever is masked.
constexpr float kNever = -1e30f;

/// Drops out values of a tile's keys; forward and backward alike. With several parts each has
/// numbers of its own, since a key's index there is not its position.
void drop_row(const TiledHead& head, const HeadBuffers& b, const Tile& tile, std::int64_t query,
              Range keys, float* row) {
  const std::int64_t parts = std::int64_t(b.plan.parts.all.size()), n = head.call.keys;
  const std::int64_t first =
      ((head.pair * head.call.queries + query) * parts + tile.part) * n + tile.keys.begin;
  drop(head.pass, head.stream, first + keys.begin, keys.size(), row + keys.begin);
}

const Positions& queries_of(const HeadBuffers& b, const Tile& tile) {
  return b.plan.part_of(tile).queries;
}

const Positions& keys_of(const HeadBuffers& b, const Tile& tile) {
  return b.plan.part_of(tile).keys;
}

/// Keys that the pattern shows to a tile's i-th query, counted from the tile's first.
Range of_pattern(const TiledHead& head, const HeadBuffers& b, const Tile& tile, std::int64_t i) {
  const Range all = head.pattern->visible(head.call, b.plan.part_of(tile), tile.queries.begin + i);
  const std::int64_t begin = std::clamp(all.begin, tile.keys.begin, tile.keys.end);
  const std::int64_t end = std::clamp(all.end, begin, tile.keys.end);
  return end > begin ? Range{begin - tile.keys.begin, end - tile.keys.begin} : Range{0, 0};
}

/// Keys of a row of which some are hidden: fills in which.
Range shown_keys(const TiledHead& head, const Pattern::Part& part, const Tile& tile, std::int64_t i,
                 Range keys, ShownKeys& row) {
  row.bits_from = keys.begin;
  if (keys.size() == 0) return {0, 0};
  const Range of_part = {tile.keys.begin + keys.begin, tile.keys.begin + keys.end};
  head.pairs->show(head.call, part, tile.queries.begin + i, of_part, row.bits.data());
  const std::int64_t words = (keys.size() + 63) / 64;
  std::int64_t first = 0, last = words - 1;
  while (first < words && row.bits[std::size_t(first)] == 0) ++first;
  if (first == words) return {0, 0};
  while (row.bits[std::size_t(last)] == 0) --last;
  const int before = std::countr_zero(row.bits[std::size_t(first)]);
  const int after = std::countl_zero(row.bits[std::size_t(last)]);
  return {keys.begin + 64 * first + before, keys.begin + 64 * (last + 1) - after};
}

/// Has to be called before a tile is worked on.
void enter(const TiledHead& head, const Tile& tile, HeadBuffers& b) {
  const Pattern::Part& part = b.plan.part_of(tile);
  b.hides = head.pairs && head.pairs->hides(part);
  b.keys.resize(std::size_t(kQueriesAtOnce));
  if (b.hides) b.shown.resize(std::size_t(kQueriesAtOnce));
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    Range& keys = b.keys[std::size_t(i)];
    keys = of_pattern(head, b, tile, i);
    if (b.hides) keys = shown_keys(head, part, tile, i, keys, b.shown[std::size_t(i)]);
  }
}

/// Takes tiles out of the plan in which nobody meets; returns how many pairs meet in the rest.
double leave_tiles_out(const TiledHead& head, HeadBuffers& b) {
  double pairs = 0;
  std::erase_if(b.plan.tiles, [&](const Tile& tile) {
    enter(head, tile, b);
    const double before = pairs;
    for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
      const Range keys = b.keys[std::size_t(i)];
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

/// Of the tile's keys; null: all are seen.
const std::uint8_t* seen_in(const TiledHead& head, const Tile& tile, HeadBuffers& b) {
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

/// scores (queries, keys) = rows of queries times rows of keys.
void product_of_keys(std::int64_t d, const Tile& tile, const HeadBuffers& b, HeadRows& queries,
                     HeadRows& keys, Mat& scores) {
  const float* panels = keys.panels(tile.part, keys_of(b, tile), tile.keys);
  tile_product_of_panels(tile.queries.size(), tile.keys.size(), d,
                         {queries.take(queries_of(b, tile), tile.queries), d, 1}, panels,
                         b.keys.data(), scores.data(), scores.cols());
}

/// Replaces logits of padding in a row of scores, hides keys between those that are shown and what
/// shares vectors with its keys.
void mask_row(const HeadBuffers& b, const std::uint8_t* seen, std::int64_t i, float* row) {
  const Range keys = b.keys[std::size_t(i)];
  for (std::int64_t j = keys.begin; seen && j < keys.end; ++j) row[j] = seen[j] ? row[j] : kMasked;
  std::fill(row + keys.begin / 16 * 16, row + keys.begin, kNever);
  std::fill(row + keys.end, row + padded(keys.end), kNever);
  if (!b.hides) return;
  const ShownKeys& shown = b.shown[std::size_t(i)];
  for (std::int64_t j = keys.begin; j < keys.end; ++j) row[j] = shown.has(j) ? row[j] : kNever;
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
void softmax(const TiledHead& head, const Tile& tile, HeadBuffers& b, HeadRows& o) {
  const std::uint8_t* seen = seen_in(head, tile, b);
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const std::int64_t query = b.plan.query(tile, i);
    const Range keys = b.keys[std::size_t(i)];
    float* scores = b.scores.row(i).data();
    float& largest = head.largest[query];
    Row row = vectors_of(keys, scores);
    if (keys.size() > 0) {
      mask_row(b, seen, i, scores);
      const float before = largest;
      largest = std::max(before, row.maxCoeff());
      if (largest > before) {
        const float factor = std::exp((before - largest) * head.scale());
        b.sums[std::size_t(query)] *= factor;
        Row(o.row_to_change(query), head.d) *= factor;
      }
      row = ((row - largest) * head.scale()).exp();
    }
    clear_row(seen, tile, keys, largest, scores);
    b.sums[std::size_t(query)] += row.sum();
    drop_row(head, b, tile, query, keys, scores);
  }
}

void mix_values(const Tile& tile, HeadBuffers& b, HeadRows& o) {
  o.add_product({b.scores.data(), b.scores.cols(), 1}, b.keys.data(),
                b.v.take(keys_of(b, tile), tile.keys), tile.keys.size(), queries_of(b, tile),
                tile.queries);
}

/// One pass: what was mixed before a larger logit came is rescaled.
void forward_of_softmax(const TiledHead& head, HeadBuffers& b, HeadRows& o) {
  b.sums.assign(std::size_t(head.call.queries), 0.0f);
  std::fill_n(head.statistics, head.call.queries, 0.0f);
  const std::vector<Tile>& tiles = b.plan.tiles;
  for (std::size_t at = 0; at < tiles.size(); ++at) {
    const Tile& tile = tiles[at];
    enter(head, tile, b);
    product_of_keys(head.d, tile, b, b.q, b.k, b.scores);
    softmax(head, tile, b, o);
    mix_values(tile, b, o);
    if (at + 1 < tiles.size() && tiles[at + 1].group == tile.group) continue;
    const std::int64_t first = tile.group * b.plan.group_size;
    const std::int64_t end = std::min(first + b.plan.group_size, head.call.queries);
    for (std::int64_t query = first; query < end; ++query) {
      const float sum = b.sums[std::size_t(query)];
      head.statistics[query] = sum > 0 ? 1 / sum : 0.0f;
      Row(o.row_to_change(query), head.d) *= head.statistics[query];
    }
    o.finish({first, end});
  }
}

/// Logits of a tile that may end above the threshold, as far as the largest is known. first: query
/// of the group.
void collect_candidates(const TiledHead& head, const Tile& tile, std::int64_t first,
                        HeadBuffers& b) {
  const std::uint8_t* seen = seen_in(head, tile, b);
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const Range keys = b.keys[std::size_t(i)];
    if (keys.size() == 0) continue;
    const std::int64_t query = b.plan.query(tile, i);
    float* row = b.scores.row(i).data();
    mask_row(b, seen, i, row);
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
void find_threshold(const TiledHead& head, std::int64_t query, std::vector<float>& logits) {
  const float largest = head.largest[query];
  for (float& logit : logits) logit = (logit - largest) * head.scale();
  const auto end = std::remove_if(logits.begin(), logits.end(),
                                  [&](float z) { return z < head.normaliser->lowest(); });
  head.statistics[query] = head.normaliser->threshold(logits.data(), end - logits.begin());
}

/// A row's logits to probabilities, once the row's statistic is known.
void probabilities(const TiledHead& head, const HeadBuffers& b, const std::uint8_t* seen,
                   const Tile& tile, std::int64_t i, float* scores) {
  mask_row(b, seen, i, scores);
  const std::int64_t query = b.plan.query(tile, i);
  const Range keys = b.keys[std::size_t(i)];
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
void forward_by_threshold(const TiledHead& head, HeadBuffers& b, HeadRows& o) {
  const std::vector<Tile>& tiles = b.plan.tiles;
  const std::int64_t size = b.plan.group_size;
  if (b.candidates.size() < std::size_t(size)) b.candidates.resize(std::size_t(size));
  for (std::size_t first = 0, next = 0; first < tiles.size(); first = next) {
    const std::int64_t query = tiles[first].group * size;
    const std::int64_t queries = std::min(size, head.call.queries - query);
    for (std::int64_t i = 0; i < queries; ++i) b.candidates[std::size_t(i)].clear();
    for (; next < tiles.size() && tiles[next].group == tiles[first].group; ++next) {
      enter(head, tiles[next], b);
      product_of_keys(head.d, tiles[next], b, b.q, b.k, b.scores);
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
        product_of_keys(head.d, tile, b, b.q, b.k, b.scores);
      }
      const std::uint8_t* seen = seen_in(head, tile, b);
      for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
        const Range keys = b.keys[std::size_t(i)];
        float* scores = b.scores.row(i).data();
        probabilities(head, b, seen, tile, i, scores);
        drop_row(head, b, tile, b.plan.query(tile, i), keys, scores);
      }
      mix_values(tile, b, o);
    }
  }
}

/// Slopes of a row of probabilities up to the last key that it sees; softmax's are they themselves.
float* slopes_of(const TiledHead& head, Range keys, float* p, HeadBuffers& b) {
  if (!head.normaliser) return p;
  b.slopes.resize(std::size_t(b.scores.cols()));
  head.normaliser->slopes(p, b.slopes.data(), padded(keys.end));
  return b.slopes.data();
}

/// What is subtracted from each query's gradient: the sum of slopes times gradients over that of
/// slopes. Softmax, whose slopes add up to 1, has it without meeting the keys.
void find_deltas(const TiledHead& head, HeadBuffers& b) {
  b.sums.assign(std::size_t(head.call.queries), 0.0f);
  b.deltas.assign(b.sums.size(), 0.0f);
  for (const Tile& tile : b.plan.tiles) {
    enter(head, tile, b);
    product_of_keys(head.d, tile, b, b.q, b.k, b.scores);
    product_of_keys(head.d, tile, b, b.dout, b.v, b.gradient);
    const std::uint8_t* seen = seen_in(head, tile, b);
    for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
      const std::int64_t query = b.plan.query(tile, i);
      const Range keys = b.keys[std::size_t(i)];
      float* p = b.scores.row(i).data();
      float* gradient = b.gradient.row(i).data();
      probabilities(head, b, seen, tile, i, p);
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

/// The same of a tile's queries, by softmax.
void find_deltas_of(const TiledHead& head, const Tile& tile, HeadRows& o, HeadBuffers& b) {
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const std::int64_t query = b.plan.query(tile, i);
    b.deltas[std::size_t(query)] =
        ConstRow(o.row(query), head.d).dot(ConstRow(b.dout.row(query), head.d));
  }
}

/// Scores to probabilities after dropout, and the gradient of those to that of the products of
/// query and key.
void rows_backward(const TiledHead& head, const Tile& tile, HeadBuffers& b) {
  const std::uint8_t* seen = seen_in(head, tile, b);
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const std::int64_t query = b.plan.query(tile, i);
    const Range keys = b.keys[std::size_t(i)];
    float* scores = b.scores.row(i).data();
    float* gradient = b.gradient.row(i).data();
    probabilities(head, b, seen, tile, i, scores);
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

/// Ranges of queries from those of keys, which are looked at some at a time: more may be in them.
void find_queries(const Tile& tile, HeadBuffers& b) {
  constexpr std::int64_t kTogether = 8;
  std::array<Range, kKeysAtOnce / kTogether> of_keys;
  of_keys.fill({tile.queries.size(), 0});
  for (std::int64_t i = 0; i < tile.queries.size(); ++i) {
    const Range keys = b.keys[std::size_t(i)];
    for (std::int64_t j = keys.begin / kTogether; j * kTogether < keys.end; ++j) {
      Range& queries = of_keys[std::size_t(j)];
      queries = {std::min(queries.begin, i), i + 1};
    }
  }
  b.queries.resize(std::size_t(tile.keys.size()));
  for (std::size_t j = 0; j < b.queries.size(); ++j) b.queries[j] = of_keys[j / kTogether];
}

}  // namespace

std::int64_t tile_width(std::int64_t keys) {
  constexpr std::int64_t kLine = 16;
  return (padded(std::min(kKeysAtOnce, keys)) / kLine | 1) * kLine;
}

double forward_of_head(const TiledHead& head, HeadBuffers& b, HeadRows& o) {
  std::fill_n(head.largest, head.call.queries, -std::numeric_limits<float>::infinity());
  b.plan.make(*head.pattern, head.call);
  const std::int64_t held = b.plan.rows_held(head.call);
  for (HeadRows* rows : {&b.q, &b.k, &b.v}) rows->hold(held);
  const double pairs = head.pairs ? leave_tiles_out(head, b) : 0;
  if (head.normaliser) {
    forward_by_threshold(head, b, o);
  } else {
    forward_of_softmax(head, b, o);
  }
  o.finish();
  return pairs;
}

void backward_of_head(const TiledHead& head, HeadRows& o, HeadBuffers& b) {
  b.gradient.resize(b.scores.rows(), b.scores.cols());
  b.plan.make(*head.pattern, head.call);
  if (head.pairs) leave_tiles_out(head, b);
  const std::int64_t held = b.plan.rows_held(head.call);
  for (HeadRows* rows : {&b.q, &b.k, &b.v, &b.dout, &b.dq, &b.dk, &b.dv}) rows->hold(held);
  if (head.normaliser) {
    find_deltas(head, b);
  } else {
    b.deltas.resize(std::size_t(head.call.queries));
  }
  // Keys in the outer loop: theirs are the larger parts of tiles.
  b.plan.sort_by_keys();
  const std::int64_t width = b.scores.cols();
  for (const Tile& tile : b.plan.tiles) {
    enter(head, tile, b);
    const Positions& of_queries = queries_of(b, tile);
    const Positions& of_keys = keys_of(b, tile);
    product_of_keys(head.d, tile, b, b.q, b.k, b.scores);
    product_of_keys(head.d, tile, b, b.dout, b.v, b.gradient);
    if (!head.normaliser) find_deltas_of(head, tile, o, b);
    rows_backward(head, tile, b);
    find_queries(tile, b);
    const float* scores = b.scores.data();
    const float* gradient = b.gradient.data();
    const std::int64_t queries = tile.queries.size(), keys = tile.keys.size();
    b.dv.add_product({scores, 1, width}, b.queries.data(), b.dout.take(of_queries, tile.queries),
                     queries, of_keys, tile.keys);
    b.dq.add_product({gradient, width, 1}, b.keys.data(), b.k.take(of_keys, tile.keys), keys,
                     of_queries, tile.queries);
    b.dk.add_product({gradient, 1, width}, b.queries.data(), b.q.take(of_queries, tile.queries),
                     queries, of_keys, tile.keys);
  }
  for (HeadRows* sums : {&b.dq, &b.dk, &b.dv}) sums->finish();
}

}  // namespace scaling
