// Decoding with routing attention: every cluster has a ring of its latest keys and values, one
// after another, so that a step finds what it reads together.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/routing.h"

namespace scaling {

/// Slots of a head: (clusters, window). A unit is a head of a token.
struct RoutingAttention::Cache : KeyValueCache {
  Cache(int tokens_, std::int64_t heads_, std::int64_t clusters_, std::int64_t window_,
        std::int64_t d_head_)
      : KeyValueCache(tokens_, heads_, clusters_ * window_, d_head_),
        clusters(clusters_),
        window(window_),
        counts(std::size_t(tokens_ * heads_ * clusters_)),
        items(std::size_t(tokens_ * heads_ * d_head_)) {}
  /// Positions spread evenly over the clusters.
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    KeyValueCache::pretend(ctx, capacity, seed, stream);
    const Range share = ctx.share(tokens * heads);
    for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
      for (std::int64_t c = 0; c < clusters; ++c) {
        counts[std::size_t(unit * clusters + c)] = (length + clusters - 1 - c) / clusters;
      }
    }
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    move_slots(ctx, moves, capacity);
    const Range share = ctx.share(heads * clusters);
    moves.apply(counts.data(), heads * clusters, share);
  }

  std::int64_t clusters, window;
  std::vector<std::int64_t> counts;  // (units, clusters): positions that have joined
  Floats items;                      // (units, d_head), of one step
  Mat directions;                    // (heads * clusters, d_head)
};

std::unique_ptr<AttentionCache> RoutingAttention::make_cache(int tokens,
                                                             std::int64_t capacity) const {
  auto cache = std::make_unique<Cache>(tokens, heads_, clusters_, window_of(capacity), d_head_);
  make_directions(cache->directions);
  return cache;
}

std::uint64_t RoutingAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  const std::int64_t units = tokens * heads_;
  const std::int64_t floats = units * d_head_ + heads_ * clusters_ * d_head_;
  return KeyValueCache::bytes(tokens, heads_, clusters_ * window_of(capacity), d_head_) +
         std::uint64_t(floats) * sizeof(float) +
         std::uint64_t(units * clusters_) * sizeof(std::int64_t);
}

/// unit: token * heads + head; q, k, v, o: of this head.
void RoutingAttention::step_head(const StepContext& ctx, Cache& cache, std::int64_t unit,
                                 const float* q, const float* k, const float* v, float* o) const {
  const std::int64_t head = unit % heads_, d = d_head_;
  const int token = int(unit / heads_);
  float* item = cache.items.data() + unit * d;
  for (std::int64_t i = 0; i < d; ++i) item[i] = (q[i] + k[i]) * 0.5f;
  normalise_item(item, d);
  const std::int64_t cluster =
      nearest_cluster(cache.directions.row(head * clusters_).data(), clusters_, item, d);
  std::int64_t& count = cache.counts[std::size_t(unit * clusters_ + cluster)];
  float* keys = cache.keys_of(token, head) + cluster * cache.window * d;
  float* values = cache.values_of(token, head) + cluster * cache.window * d;
  const std::int64_t slot = count % cache.window;
  std::copy_n(item, d, keys + slot * d);
  std::copy_n(v, d, values + slot * d);
  ++count;
  ctx.kernels.attend(item, {keys, values, std::min(count, cache.window), d},
                     cache.scores_of(token, head), o);
}

void RoutingAttention::step(const StepContext& ctx, AttentionCache& of_branch, const float* q,
                            const float* k, const float* v, float* o) const {
  auto& cache = static_cast<Cache&>(of_branch);
  SCALING_CHECK(cache.tokens == ctx.tokens && cache.window > 0);
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    if (ctx.position == 0) {  // of a new decode
      std::fill_n(cache.counts.begin() + std::ptrdiff_t(unit * clusters_), clusters_, 0);
    }
    const std::int64_t at = (unit / heads_ * all_heads_ + first_ + unit % heads_) * d_head_;
    step_head(ctx, cache, unit, q + at, k + at, v + at, o + at);
  }
  ctx.sync();
}

Cost RoutingAttention::step_cost(int tokens, std::int64_t length) const {
  const double width = double(heads_ * d_head_), n = double(tokens);
  const double share = std::max(1.0, double(length) / double(clusters_));
  const double cached = 2 * width * std::min(double(window_of(length)), share) * n;
  const double directions = width * double(clusters_);
  return {{"attention", directions, 4 * (cached + directions), 2 * cached + 2 * directions * n}};
}

}  // namespace scaling
