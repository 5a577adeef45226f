// Decoding by sums over earlier positions: heads of all tokens are shared among the threads; a
// head's sums are met by one thread only.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/initialize.h"
#include "models/layers/attention/performer.h"

namespace scaling {

/// A unit is a head of a token.
struct PerformerAttention::Cache : AttentionCache {
  std::int64_t units = 0, features = 0, d = 0;
  std::vector<float> directions;  // (heads, features, d)
  // Of features divided by exp(maxima).
  std::vector<float> sums;    // (units, features, d): times values
  Floats weights;             // (units, features)
  std::vector<float> maxima;  // (units, features): largest exponents of keys
  Floats scratch;             // (units, 2, features), of one step

  static std::int64_t floats_of_unit(std::int64_t features, std::int64_t d) {
    return features * (d + 4);
  }
  /// Sums of `length` keys that all have the largest features, and of values that are drawn
  /// together: a step's time depends on neither.
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    const Initializer uniform = {Initializer::Kind::uniform, float(length)};
    const std::int64_t n = features * d;
    const Range share = ctx.share(units);
    for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
      draw_values(seed, stream, uniform, unit * n, n, sums.data() + unit * n);
      std::fill_n(weights.data() + unit * features, features, float(length));
      std::fill_n(maxima.data() + unit * features, features, length > 0 ? 0.0f : kNoExponent);
    }
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    const std::int64_t n = units / ctx.tokens * features;  // of a token
    const Range share = ctx.share(n);
    moves.apply(sums.data(), n * d, {share.begin * d, share.end * d});
    moves.apply(weights.data(), n, share);
    moves.apply(maxima.data(), n, share);
  }
};

std::unique_ptr<AttentionCache> PerformerAttention::make_cache(int tokens, std::int64_t) const {
  auto cache = std::make_unique<Cache>();
  cache->units = tokens * heads_;
  cache->features = features_;
  cache->d = d_head_;
  const Mat directions = fixed_directions();
  cache->directions.assign(directions.data(), directions.data() + directions.size());
  const auto rows = std::size_t(cache->units * features_);
  cache->sums.resize(rows * std::size_t(d_head_));
  cache->weights.resize(rows);
  cache->maxima.assign(rows, kNoExponent);
  cache->scratch.resize(2 * rows);
  return cache;
}

std::uint64_t PerformerAttention::cache_bytes(int tokens, std::int64_t) const {
  const std::int64_t directions = heads_ * features_ * d_head_;
  return std::uint64_t(directions + tokens * heads_ * Cache::floats_of_unit(features_, d_head_)) *
         sizeof(float);
}

/// unit: token * heads + head; q, k, v, o: of this head.
void PerformerAttention::step_head(Cache& cache, std::int64_t unit, const float* q, const float* k,
                                   const float* v, float* o) const {
  using Vector = Eigen::Map<const Eigen::VectorXf>;
  using Array = Eigen::Map<Eigen::ArrayXf>;
  using Row = Eigen::Map<Eigen::RowVectorXf>;
  const std::int64_t m = features_, d = d_head_;
  const Eigen::Map<const Mat> directions(cache.directions.data() + unit % heads_ * m * d, m, d);
  float* sums = cache.sums.data() + unit * m * d;
  Array weights(cache.weights.data() + unit * m, m), maxima(cache.maxima.data() + unit * m, m);
  Array query(cache.scratch.data() + unit * 2 * m, m), key(query.data() + m, m);
  const float scale = 1 / std::sqrt(std::sqrt(float(d)));

  query.matrix().noalias() = directions * Vector(q, d);
  key.matrix().noalias() = directions * Vector(k, d);
  query *= scale;
  key = key * scale - scale * scale / 2 * Vector(k, d).squaredNorm();
  // Exponents that are larger than all before are the new maxima.
  for (std::int64_t f = 0; f < m; ++f) {
    if (key(f) <= maxima(f)) continue;
    const float factor = std::exp(maxima(f) - key(f));
    maxima(f) = key(f);
    weights(f) *= factor;
    Row(sums + f * d, d) *= factor;
  }
  query += maxima;
  query = (query - query.maxCoeff()).exp();
  key = (key - maxima).exp();
  weights += key;

  Row out(o, d);
  out.setZero();
  const Eigen::Map<const Eigen::RowVectorXf> value(v, d);
  for (std::int64_t f = 0; f < m; ++f) {
    Row sum(sums + f * d, d);
    sum += key(f) * value;
    out += query(f) * sum;
  }
  out *= 1 / (query * weights).sum();
}

void PerformerAttention::step(const StepContext& ctx, AttentionCache& of_branch, const float* q,
                              const float* k, const float* v, float* o) const {
  auto& cache = static_cast<Cache&>(of_branch);
  SCALING_CHECK(cache.units == ctx.tokens * heads_);
  const Range share = ctx.share(cache.units);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    if (ctx.position == 0) {  // of a new decode
      const std::int64_t n = features_ * d_head_;
      std::fill_n(cache.sums.data() + unit * n, n, 0.0f);
      std::fill_n(cache.weights.data() + unit * features_, features_, 0.0f);
      std::fill_n(cache.maxima.data() + unit * features_, features_, kNoExponent);
    }
    const std::int64_t at = (unit / heads_ * all_heads_ + first_ + unit % heads_) * d_head_;
    step_head(cache, unit, q + at, k + at, v + at, o + at);
  }
  ctx.sync();
}

Cost PerformerAttention::step_cost(int tokens, std::int64_t) const {
  const double m = double(heads_ * features_), d = double(d_head_), n = double(tokens);
  // Read once for all tokens; sums and their weights twice, read and written; maxima.
  const double floats = m * d + n * m * (2 * (d + 1) + 1);
  return {{"attention", 0, 4 * floats, work(1, /*causal=*/true).products * n}};
}

}  // namespace scaling
