// Decoding with LSH attention: one position attends to those that share a bucket with it. Each
// bucket's positions are a list, the latest first, so that nobody looks at the others.
#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/layers/attention/bucket_lists.h"
#include "models/layers/attention/lsh.h"
#include "models/layers/parts/partial_sums.h"

namespace scaling {
namespace {

bool shares_bucket(const std::int32_t* a, const std::int32_t* b, std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (a[round] == b[round]) return true;
  }
  return false;
}

}  // namespace

/// With what decoded positions hashed to, and what hashes them. A unit is a head of a token.
struct LshAttention::Cache : KeyValueCache {
  Cache(std::int64_t rounds_, const LshHashing& hashing_, int tokens_, std::int64_t heads_,
        std::int64_t capacity_, std::int64_t d_head_)
      : KeyValueCache(tokens_, heads_, capacity_, d_head_),
        rounds(rounds_),
        hashing(hashing_),
        buckets(std::size_t(tokens * heads * capacity * rounds)),
        lists(tokens * heads, rounds, hashing.buckets(), capacity),
        places(std::size_t(tokens * heads * rounds)) {}

  std::int32_t* buckets_of(std::int64_t unit) { return buckets.data() + unit * capacity * rounds; }
  /// Positions have the buckets that they were drawn with.
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    KeyValueCache::pretend(ctx, length, seed, stream);
    const Range share = ctx.share(tokens * heads);
    for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
      lists.list_before(unit, 0, buckets_of(unit));
      lists.list_before(unit, std::min(length, capacity), buckets_of(unit));
    }
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    KeyValueCache::reorder(ctx, moves);
    const std::int64_t of_head = capacity * rounds;
    const Range share = ctx.share(heads);
    for (std::int64_t head = share.begin; head < share.end; ++head) {
      moves.apply(buckets.data() + head * of_head, heads * of_head,
                  {0, std::min(ctx.position, capacity) * rounds});
      lists.reorder(moves, heads, head);
    }
  }

  const std::int64_t rounds;
  const LshHashing hashing;
  std::vector<float> rotations;            // (heads, d_head, rounds * columns)
  std::vector<std::int32_t> buckets;       // (units, capacity, rounds)
  BucketLists lists;                       // of these
  std::vector<BucketLists::Place> places;  // (units, rounds), of one step
  std::vector<float> scratch;              // (units, d_head + rounds * columns), of one step
  /// (units, slots): who is met. A thread uses those of its first token and head.
  std::vector<std::int32_t> chosen;
};

std::unique_ptr<AttentionCache> LshAttention::make_cache(int tokens, std::int64_t capacity) const {
  auto cache =
      std::make_unique<Cache>(rounds_, hashing_of(capacity), tokens, heads_, capacity, d_head_);
  const std::int64_t columns = rounds_ * cache->hashing.columns(), units = tokens * heads_;
  cache->rotations.resize(std::size_t(heads_ * d_head_ * columns));
  for (std::int64_t head = 0; head < heads_; ++head) {
    draw_rotations(seed_, kFixedRotations, first_ + head, d_head_, rounds_,
                   cache->hashing.columns(), cache->rotations.data() + head * d_head_ * columns);
  }
  Rng rng(seed_, kFixedRotations + 1);
  for (std::int32_t& bucket : cache->buckets) {
    bucket = std::int32_t(rng.below(std::uint32_t(cache->hashing.buckets())));
  }
  cache->scratch.resize(std::size_t(units * (d_head_ + columns)));
  cache->chosen.resize(std::size_t(units * std::min(slots(), capacity)));
  return cache;
}

std::uint64_t LshAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  const LshHashing hashing = hashing_of(capacity);
  const std::int64_t columns = rounds_ * hashing.columns(), units = tokens * heads_;
  const std::int64_t rotations = heads_ * d_head_ * columns, scratch = units * (d_head_ + columns);
  return KeyValueCache::bytes(tokens, heads_, capacity, d_head_) +
         BucketLists::bytes(units, rounds_, hashing.buckets(), capacity) +
         std::uint64_t(units * (capacity * rounds_ + std::min(slots(), capacity))) *
             sizeof(std::int32_t) +
         std::uint64_t(units * rounds_) * sizeof(BucketLists::Place) +
         std::uint64_t(rotations + scratch) * sizeof(float);
}

/// Those that share a bucket with a position in any round, the latest first, `most` of them: its
/// rounds' lists, which descend, as one. Returns how many there are.
std::int64_t LshAttention::alike(Cache& cache, std::int64_t unit, std::int64_t most,
                                 std::int32_t* chosen) const {
  BucketLists::Place* const places = cache.places.data() + unit * rounds_;
  std::int64_t n = 0;
  while (n < most) {
    std::int32_t next = BucketLists::kNobody;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      next = std::max(next, cache.lists.position(unit, places[round]));
    }
    if (next == BucketLists::kNobody) break;
    chosen[n++] = next;
    for (std::int64_t round = 0; round < rounds_; ++round) {
      if (cache.lists.position(unit, places[round]) == next) {
        places[round] = cache.lists.earlier(unit, places[round]);
      }
    }
  }
  return n;
}

/// unit: token * heads + head; q, k, v, o: of this head.
void LshAttention::step_head(const StepContext& ctx, Cache& cache, std::int64_t unit,
                             const float* q, const float* k, const float* v, float* o) const {
  const std::int64_t position = ctx.position, head = unit % heads_, slots_left = slots() - 1;
  const std::int64_t of_round = cache.hashing.columns(), columns = rounds_ * of_round;
  const int token = int(unit / heads_);
  float* keys = cache.keys_of(token, head);
  float* values = cache.values_of(token, head);
  float* qk = cache.scratch.data() + unit * (d_head_ + columns);
  float* rotated = qk + d_head_;
  const float* rotation = cache.rotations.data() + head * d_head_ * columns;

  float squares = 0;
  for (std::int64_t i = 0; i < d_head_; ++i) {
    qk[i] = (q[i] + k[i]) * 0.5f;
    squares += qk[i] * qk[i];
  }
  // The kernel divides logits by sqrt(d_head).
  const float inverse = 1 / std::sqrt(squares / float(d_head_) + kLshEpsilon);
  for (std::int64_t i = 0; i < d_head_; ++i) keys[position * d_head_ + i] = qk[i] * inverse;
  std::copy_n(v, d_head_, values + position * d_head_);

  std::fill_n(rotated, columns, 0.0f);
  for (std::int64_t i = 0; i < d_head_; ++i) {
    const float* direction = rotation + i * columns;
    for (std::int64_t c = 0; c < columns; ++c) rotated[c] += qk[i] * direction[c];
  }
  std::int32_t* all_buckets = cache.buckets_of(unit);
  cache.lists.list_before(unit, position, all_buckets);
  std::int32_t* buckets = all_buckets + position * rounds_;
  for (std::int64_t round = 0; round < rounds_; ++round) {
    buckets[round] = bucket_of(cache.hashing, rotated + round * of_round);
    cache.places[std::size_t(unit * rounds_ + round)] =
        cache.lists.latest(unit, round, buckets[round]);
  }
  cache.lists.add(unit, buckets);

  const std::int64_t others = std::min(slots_left, position);
  float* scores = cache.scores_of(token, head);
  if (others == 0) {
    std::copy_n(v, d_head_, o);
    return;
  }
  if (others == position && graph_ == LshGraph::chunks) {
    ctx.kernels.attend(qk, {keys, values, position, d_head_}, scores, o);
    return;
  }
  const std::int64_t first = ctx.share(cache.tokens * heads_).begin;
  std::int32_t* chosen = cache.chosen.data() + first * std::min(slots(), cache.capacity);
  std::int64_t n = alike(cache, unit, others, chosen);
  if (graph_ == LshGraph::chunks) {
    for (std::int64_t at = position - 1; at >= 0 && n < others; --at) {
      if (shares_bucket(all_buckets + at * rounds_, buckets, rounds_)) continue;
      chosen[n++] = std::int32_t(at);
    }
  }
  if (n == 0) {
    std::copy_n(v, d_head_, o);
    return;
  }
  ctx.kernels.attend(qk, {keys, values, n, d_head_, chosen}, scores, o);
}

void LshAttention::step(const StepContext& ctx, AttentionCache& of_branch, const float* q,
                        const float* k, const float* v, float* o) const {
  auto& cache = static_cast<Cache&>(of_branch);
  SCALING_CHECK(ctx.position < cache.capacity);
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const std::int64_t at = (unit / heads_ * all_heads_ + first_ + unit % heads_) * d_head_;
    step_head(ctx, cache, unit, q + at, k + at, v + at, o + at);
  }
  ctx.sync();
}

Cost LshAttention::step_cost(int tokens, std::int64_t length) const {
  const double width = double(heads_ * d_head_);
  double chosen = double(std::min(slots(), length));
  if (graph_ == LshGraph::buckets) {
    // Who shares a bucket in some round, if all buckets are as full.
    const double apart = 1 - 1 / double(hashing_of(length).buckets());
    chosen = std::min(chosen, double(length) * (1 - std::pow(apart, double(rounds_))));
  }
  const double directions = width * double(rounds_ * hashing_of(length).columns());
  // While all fit, nobody looks at lists of buckets, unless they alone are met.
  const bool compares = length > slots() || graph_ == LshGraph::buckets;
  const double compared = compares ? double(rounds_ * heads_) * chosen * tokens : 0;
  const double cached = 2 * chosen * width * tokens;
  return {
      {"attention", 0, 4 * (cached + compared + directions), 2 * cached + 2 * directions * tokens}};
}

}  // namespace scaling
