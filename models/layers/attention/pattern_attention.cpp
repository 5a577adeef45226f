// Decoding: heads of all tokens are shared among the threads; a head's cache is read by one thread
// only.
#include "models/layers/attention/pattern_attention.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace scaling {

struct PatternAttention::Cache : KeyValueCache {
  using KeyValueCache::KeyValueCache;
  /// Of what is no ring every slot: any may be read.
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    KeyValueCache::pretend(ctx, is_ring ? length : capacity, seed, stream);
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    move_slots(ctx, moves, is_ring ? std::min(ctx.position, capacity) : capacity);
  }
  bool is_ring = true;
  std::int64_t positions = 0;  // of the decode
  std::vector<float> sorted;   // (tokens, heads, capacity), if there is a threshold to find
  std::int64_t apart = 0;      // Pattern::most_apart
  // A thread uses what belongs to its first pair of token and head, so that it stays in cache.
  std::vector<float> gathered;             // (tokens * heads, 2, apart, d_head)
  std::vector<std::vector<Range>> ranges;  // (tokens * heads)
};

PatternAttention::PatternAttention(const ModelConfig& config, std::unique_ptr<Pattern> pattern)
    : tiles_{config.n_heads, config.d_head(), std::move(pattern),
             make_normaliser(config.options<PatternKnobs>().normaliser,
                             config.options<PatternKnobs>().entmax_alpha)} {}

void PatternAttention::take_heads(Range heads) {
  SCALING_CHECK(tiles_.of == 0 && heads.begin >= 0 && heads.size() > 0);
  SCALING_CHECK(heads.end <= tiles_.heads);
  tiles_.of = tiles_.heads;
  tiles_.first = heads.begin;
  tiles_.heads = heads.size();
}

std::unique_ptr<AttentionCache> PatternAttention::make_cache(int tokens,
                                                             std::int64_t capacity) const {
  const Pattern& pattern = *tiles_.pattern;
  const std::int64_t units = tokens * tiles_.heads;
  auto cache =
      std::make_unique<Cache>(tokens, tiles_.heads, pattern.slots(capacity), tiles_.d_head);
  cache->is_ring = pattern.is_ring();
  cache->positions = capacity;
  if (tiles_.normaliser) cache->sorted.resize(cache->scores.size());
  cache->apart = pattern.most_apart(capacity);
  cache->gathered.resize(std::size_t(2 * units * cache->apart * tiles_.d_head));
  cache->ranges.resize(std::size_t(units));
  for (std::vector<Range>& ranges : cache->ranges) ranges.reserve(8);
  return cache;
}

std::uint64_t PatternAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  const std::int64_t slots = tiles_.pattern->slots(capacity), units = tokens * tiles_.heads;
  const std::int64_t sorted = tiles_.normaliser ? units * slots : 0;
  const std::int64_t gathered = 2 * units * tiles_.pattern->most_apart(capacity) * tiles_.d_head;
  return KeyValueCache::bytes(tokens, tiles_.heads, slots, tiles_.d_head) +
         std::uint64_t(sorted + gathered) * sizeof(float);
}

void PatternAttention::step(const StepContext& ctx, AttentionCache& of_branch, const float* q,
                            const float* k, const float* v, float* o) const {
  auto& cache = static_cast<Cache&>(of_branch);
  SCALING_CHECK(ctx.position < cache.positions);
  const Pattern& pattern = *tiles_.pattern;
  const std::int64_t d = tiles_.d_head, position = ctx.position, all_heads = tiles_.all_heads();
  const Range share = ctx.share(ctx.tokens * tiles_.heads);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / tiles_.heads);
    const std::int64_t own = unit % tiles_.heads, head = tiles_.first + own;
    const std::int64_t at = (token * all_heads + head) * d;
    const float* keys = cache.keys_of(token, own);
    const float* values = cache.values_of(token, own);
    float* scores = cache.scores_of(token, own);
    const Pattern::Place place = pattern.place(head, position, cache.positions);
    for (const std::int64_t slot : {place.slot, place.copy}) {
      if (slot < 0) continue;
      std::copy_n(k + at, d, cache.keys_of(token, own) + slot * d);
      std::copy_n(v + at, d, cache.values_of(token, own) + slot * d);
    }
    std::vector<Range>& ranges = cache.ranges[std::size_t(share.begin)];
    ranges.clear();
    pattern.reads(head, position, cache.positions, ranges);
    std::int64_t n = ranges[0].size();
    if (ranges.size() == 1) {
      keys += ranges[0].begin * d;
      values += ranges[0].begin * d;
    } else {
      // Copied together, since runs of neighbours stream faster than rows that are asked for.
      float* all_keys = cache.gathered.data() + 2 * share.begin * cache.apart * d;
      float* all_values = all_keys + cache.apart * d;
      n = 0;
      for (const Range& range : ranges) {
        std::copy_n(keys + range.begin * d, range.size() * d, all_keys + n * d);
        std::copy_n(values + range.begin * d, range.size() * d, all_values + n * d);
        n += range.size();
      }
      keys = all_keys;
      values = all_values;
    }
    if (tiles_.normaliser) {
      float* sorted = cache.sorted.data() + unit * cache.capacity;
      ctx.kernels.attend_entmax(tiles_.normaliser->alpha(), q + at, {keys, values, n, d}, scores,
                                sorted, o + at);
    } else {
      ctx.kernels.attend(q + at, {keys, values, n, d}, scores, o + at);
    }
  }
  ctx.sync();
}

Cost PatternAttention::step_cost(int tokens, std::int64_t length) const {
  double keys = 0, values = 0;  // of all heads
  std::vector<Range> read;
  for (std::int64_t head = tiles_.first; head < tiles_.first + tiles_.heads; ++head) {
    const double n = double(tiles_.pattern->keys_read(head, length));
    read.clear();
    if (length > 0) tiles_.pattern->reads(head, length - 1, length, read);
    keys += n;
    // What is copied together is copied before probabilities are known.
    values += tiles_.normaliser && read.size() == 1 ? 1 : n;
  }
  const double floats = (keys + values) * double(tiles_.d_head) * tokens;
  return {{"attention", 0, floats * 4, 2 * floats}};
}

AttentionWork PatternAttention::work(std::int64_t length, bool causal) const {
  const Pattern& pattern = *tiles_.pattern;
  PatternCall call = {.head = tiles_.first, .queries = length, .keys = length, .causal = causal};
  if (!pattern.differs_by_head()) return {.pairs = double(tiles_.heads) * pattern.pairs(call)};
  AttentionWork all;
  for (; call.head < tiles_.first + tiles_.heads; ++call.head) all.pairs += pattern.pairs(call);
  return all;
}

}  // namespace scaling
