// One head of one example, forward and backward, tile by tile.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "models/layers/attention/head_pairs.h"
#include "models/layers/attention/head_rows.h"
#include "models/layers/attention/normaliser.h"
#include "models/layers/attention/pattern.h"
#include "models/layers/attention/tile_plan.h"
#include "models/matrix.h"
#include "models/pass.h"

namespace scaling {

/// Which keys a row of a tile shows of those that its pattern would.
struct ShownKeys {
  std::int64_t bits_from = 0;  // the key of the first bit
  std::array<std::uint64_t, kKeysAtOnce / 64> bits;

  bool has(std::int64_t key) const {
    const std::int64_t bit = key - bits_from;
    return (bits[std::size_t(bit / 64)] >> (bit % 64) & 1) != 0;
  }
};

/// One thread's buffers for one example and head.
struct HeadBuffers {
  HeadRows q{kQueriesAtOnce}, dout{kQueriesAtOnce}, dq{kQueriesAtOnce};
  HeadRows k{kKeysAtOnce}, v{kKeysAtOnce}, dk{kKeysAtOnce}, dv{kKeysAtOnce};
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
  /// Of the tile at hand: keys that each of its queries may look at, counted from the tile's first;
  /// if its part hides some of what the pattern shows, from the first to the last that is not.
  std::vector<Range> keys;
  bool hides = false;
  std::vector<ShownKeys> shown;
  /// Of backward's tile at hand: what holds all queries that may look at each of its keys.
  std::vector<Range> queries;
};

/// One head of one example in a call.
struct TiledHead {
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

/// Floats of a row of a tile's scores: an odd number of lines, so that the same column of its rows
/// is in all sets of a cache.
std::int64_t tile_width(std::int64_t keys);

/// From the buffers' q, k and v what o is to sum; returns how many pairs met, where they are
/// chosen.
double forward_of_head(const TiledHead& head, HeadBuffers& b, HeadRows& o);
/// From q, k, v and dout what dq, dk and dv are to sum, after a forward of the same head into o.
void backward_of_head(const TiledHead& head, HeadRows& o, HeadBuffers& b);

}  // namespace scaling
