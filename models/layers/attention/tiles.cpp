// Heads of all examples are shared among the threads. A head's queries meet its keys tile by tile,
// without tiles that a causal mask hides whole, and what a tile's scores become is made again by
// backward: so they stay in cache.
#include "models/layers/attention/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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
/// Of keys that are left out: below whatever is masked.
constexpr float kNever = -1e30f;

/// One thread's buffers for one example and head.
struct Buffers {
  Mat q, k, v, o, dout, dq, dk, dv;  // (queries or keys, d_head)
  Mat scores, gradient;              // of a tile
  std::vector<float> sums, deltas;   // of queries
};

struct AttentionActivations : Activations {
  /// (examples * heads, queries): the largest unscaled logit, and one over the sum of exp(logit -
  /// the largest).
  std::vector<float> largest, inverse_sums;
  Mat o;  ///< the last result
  /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
  std::vector<Buffers> buffers;
};

/// One head of one example in a call.
struct Head {
  const Pass& pass;
  std::uint64_t stream;
  const std::uint8_t* seen;  // keys, or null
  bool causal;
  std::int64_t queries, keys, d;
  std::int64_t pair;    // example * heads + head
  float* largest;       // (queries)
  float* inverse_sums;  // (queries)
  float scale() const { return 1 / std::sqrt(float(d)); }
  void drop_row(std::int64_t query, std::int64_t key, std::int64_t n, float* values) const {
    drop(pass, stream, (pair * queries + query) * keys + key, n, values);
  }
};

/// Some queries and some keys, from the first of each on.
struct Tile {
  std::int64_t query, queries, key, keys;
};

/// The part of a tile that a causal mask leaves; its keys are none if it leaves nothing.
Tile tile_of(const Head& head, std::int64_t query, std::int64_t key) {
  const std::int64_t queries = std::min(kQueriesAtOnce, head.queries - query);
  const std::int64_t end = head.causal ? query + queries : head.keys;
  return {query, queries, key,
          std::clamp<std::int64_t>(end - key, 0, std::min(kKeysAtOnce, head.keys - key))};
}

/// Keys of a tile, from its first on, that its i-th query may look at.
std::int64_t visible(const Head& head, const Tile& tile, std::int64_t i) {
  if (!head.causal) return tile.keys;
  return std::clamp<std::int64_t>(tile.query + i + 1 - tile.key, 0, tile.keys);
}

void product_of_keys(const Head& head, const Tile& tile, const Mat& queries, const Mat& keys,
                     Mat& scores) {
  head.pass.gemm.product(false, true, tile.queries, tile.keys, head.d,
                         queries.row(tile.query).data(), head.d, keys.row(tile.key).data(), head.d,
                         0, scores.data(), scores.cols());
}

/// Replaces logits of padding, and hides the rest of the row's last vector; the row's length in
/// whole vectors.
std::int64_t mask_row(const Head& head, const Tile& tile, std::int64_t n, float* row) {
  const std::uint8_t* seen = head.seen ? head.seen + tile.key : nullptr;
  for (std::int64_t j = 0; seen && j < n; ++j) row[j] = seen[j] ? row[j] : kMasked;
  std::fill(row + n, row + padded(n), kNever);
  return padded(n);
}

/// Zero where exp, vectorised, has left almost nothing.
void clear_row(const Head& head, const Tile& tile, std::int64_t n, float largest, float* row) {
  const std::uint8_t* seen = head.seen ? head.seen + tile.key : nullptr;
  for (std::int64_t j = 0; seen && largest > kMasked && j < n; ++j) {
    row[j] = seen[j] ? row[j] : 0.0f;
  }
  std::fill(row + n, row + std::max(padded(n), tile.keys), 0.0f);
}

/// Scores to exp(logit - the largest so far), dropped out; what was summed before a larger one came
/// is scaled down.
void softmax(const Head& head, const Tile& tile, Buffers& b) {
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t query = tile.query + i, n = visible(head, tile, i);
    float* scores = b.scores.row(i).data();
    float& largest = head.largest[query];
    if (n > 0) {
      Row row(scores, mask_row(head, tile, n, scores));
      const float before = largest;
      largest = std::max(before, row.maxCoeff());
      if (largest > before) {
        const float factor = std::exp((before - largest) * head.scale());
        b.sums[std::size_t(query)] *= factor;
        b.o.row(query) *= factor;
      }
      row = ((row - largest) * head.scale()).exp();
    }
    clear_row(head, tile, n, largest, scores);
    b.sums[std::size_t(query)] += Row(scores, padded(n)).sum();
    head.drop_row(query, tile.key, n, scores);
  }
}

void forward_of_head(const Head& head, Buffers& b) {
  std::fill_n(head.largest, head.queries, -std::numeric_limits<float>::infinity());
  b.sums.assign(std::size_t(head.queries), 0.0f);
  b.o.setZero(head.queries, head.d);
  for (std::int64_t query = 0; query < head.queries; query += kQueriesAtOnce) {
    for (std::int64_t key = 0; key < head.keys; key += kKeysAtOnce) {
      const Tile tile = tile_of(head, query, key);
      if (tile.keys == 0) break;
      product_of_keys(head, tile, b.q, b.k, b.scores);
      softmax(head, tile, b);
      head.pass.gemm.product(false, false, tile.queries, head.d, tile.keys, b.scores.data(),
                             b.scores.cols(), b.v.row(key).data(), head.d, 1, b.o.row(query).data(),
                             head.d);
    }
  }
  for (std::int64_t query = 0; query < head.queries; ++query) {
    head.inverse_sums[query] = 1 / b.sums[std::size_t(query)];
    b.o.row(query) *= head.inverse_sums[query];
  }
}

/// Scores to probabilities after dropout, and the gradient of those to that of the products of
/// query and key.
void softmax_backward(const Head& head, const Tile& tile, Buffers& b) {
  const std::uint8_t* seen = head.seen ? head.seen + tile.key : nullptr;
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t query = tile.query + i, n = visible(head, tile, i);
    float* scores = b.scores.row(i).data();
    float* gradient = b.gradient.row(i).data();
    const float largest = head.largest[query];
    Row p(scores, mask_row(head, tile, n, scores)), g(gradient, padded(n));
    p = ((p - largest) * head.scale()).exp() * head.inverse_sums[query];
    clear_row(head, tile, n, largest, scores);
    head.drop_row(query, tile.key, n, gradient);
    std::fill(gradient + n, gradient + std::max(padded(n), tile.keys), 0.0f);
    g = p * (g - b.deltas[std::size_t(query)]) * head.scale();
    // A replaced logit passes nothing back, even where nothing else was there to look at.
    for (std::int64_t j = 0; seen && j < n; ++j) gradient[j] = seen[j] ? gradient[j] : 0.0f;
    head.drop_row(query, tile.key, n, scores);
  }
}

void backward_of_head(const Head& head, Buffers& b) {
  b.gradient.resize(b.scores.rows(), b.scores.cols());
  b.dq.setZero(head.queries, head.d);
  b.dk.setZero(head.keys, head.d);
  b.dv.setZero(head.keys, head.d);
  b.deltas.resize(std::size_t(head.queries));
  for (std::int64_t query = 0; query < head.queries; ++query) {
    b.deltas[std::size_t(query)] = b.o.row(query).dot(b.dout.row(query));
  }
  const GemmFunction product = head.pass.gemm.product;
  const std::int64_t d = head.d, width = b.scores.cols();
  for (std::int64_t key = 0; key < head.keys; key += kKeysAtOnce) {
    for (std::int64_t query = 0; query < head.queries; query += kQueriesAtOnce) {
      const Tile tile = tile_of(head, query, key);
      if (tile.keys == 0) continue;
      const std::int64_t n = tile.queries, keys = tile.keys;
      product_of_keys(head, tile, b.q, b.k, b.scores);
      product_of_keys(head, tile, b.dout, b.v, b.gradient);
      softmax_backward(head, tile, b);
      product(true, false, keys, d, n, b.scores.data(), width, b.dout.row(query).data(), d, 1,
              b.dv.row(key).data(), d);
      product(false, false, n, d, keys, b.gradient.data(), width, b.k.row(key).data(), d, 1,
              b.dq.row(query).data(), d);
      product(true, false, keys, d, n, b.gradient.data(), width, b.q.row(query).data(), d, 1,
              b.dk.row(key).data(), d);
    }
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
void for_heads(const Pass& pass, const Mat& q, const Mat& k, const Mat& v,
               const AttentionMask& mask, std::int64_t heads, AttentionActivations& own,
               Body&& body) {
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
                         .stream = own.stream,
                         .seen = mask.keys ? mask.keys + example * keys : nullptr,
                         .causal = mask.causal,
                         .queries = queries,
                         .keys = keys,
                         .d = d,
                         .pair = pair,
                         .largest = own.largest.data() + pair * queries,
                         .inverse_sums = own.inverse_sums.data() + pair * queries};
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
  own.inverse_sums.resize(own.largest.size());
  if (own.buffers.size() < std::size_t(pairs)) own.buffers.resize(std::size_t(pairs));
  own.o.resize(q.rows(), q.cols());
  o.resize(q.rows(), q.cols());
  for_heads(pass, q, k, v, mask, heads, own,
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
  for_heads(pass, q, k, v, mask, heads, own,
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
