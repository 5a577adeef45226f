// Decoding: heads of all tokens are shared among the threads; a head's cache is read by one thread
// only.
#include "models/layers/attention/pattern_attention.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace scaling {

struct PatternAttention::Cache : KeyValueCache {
  using KeyValueCache::KeyValueCache;
  std::int64_t positions = 0;  // of the decode
  std::vector<float> sorted;   // (tokens, heads, capacity), if there is a threshold to find
};

PatternAttention::PatternAttention(const ModelConfig& config, std::unique_ptr<Pattern> pattern)
    : tiles_{config.n_heads, config.d_head(), std::move(pattern),
             make_normaliser(config.options<PatternKnobs>().normaliser,
                             config.options<PatternKnobs>().entmax_alpha)} {}

std::unique_ptr<AttentionCache> PatternAttention::make_cache(int tokens,
                                                             std::int64_t capacity) const {
  auto cache = std::make_unique<Cache>(tokens, tiles_.heads, tiles_.pattern->remembered(capacity),
                                       tiles_.d_head);
  cache->positions = capacity;
  if (tiles_.normaliser) cache->sorted.resize(cache->scores.size());
  return cache;
}

std::uint64_t PatternAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  const std::int64_t slots = tiles_.pattern->remembered(capacity);
  const std::int64_t sorted = tiles_.normaliser ? tokens * tiles_.heads * slots : 0;
  return KeyValueCache::bytes(tokens, tiles_.heads, slots, tiles_.d_head) +
         std::uint64_t(sorted) * sizeof(float);
}

void PatternAttention::step(const StepContext& ctx, AttentionCache& of_branch, const float* q,
                            const float* k, const float* v, float* o) const {
  auto& cache = static_cast<Cache&>(of_branch);
  SCALING_CHECK(ctx.position < cache.positions);
  const std::int64_t d = tiles_.d_head, slot = ctx.position % cache.capacity;
  const std::int64_t n = std::min(ctx.position + 1, cache.capacity);
  const Range share = ctx.share(ctx.tokens * tiles_.heads);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / tiles_.heads);
    const std::int64_t head = unit % tiles_.heads, at = unit * d;
    float* keys = cache.keys_of(token, head);
    float* values = cache.values_of(token, head);
    float* scores = cache.scores_of(token, head);
    std::copy_n(k + at, d, keys + slot * d);
    std::copy_n(v + at, d, values + slot * d);
    if (tiles_.normaliser) {
      float* sorted = cache.sorted.data() + unit * cache.capacity;
      ctx.kernels.attend_entmax(tiles_.normaliser->alpha(), q + at, keys, values, n, d, scores,
                                sorted, o + at);
    } else {
      ctx.kernels.attend(q + at, keys, values, n, d, scores, o + at);
    }
  }
  ctx.sync();
}

Cost PatternAttention::step_cost(int tokens, std::int64_t length) const {
  const double keys = double(tiles_.pattern->remembered(length));
  const double values = tiles_.normaliser ? std::min(keys, 1.0) : keys;
  const double floats = (keys + values) * double(tiles_.heads * tiles_.d_head) * tokens;
  return {{"attention", 0, floats * 4, 2 * floats}};
}

AttentionWork PatternAttention::work(std::int64_t length, bool causal) const {
  return {.pairs = double(tiles_.heads) * tiles_.pattern->pairs(length, causal)};
}

}  // namespace scaling
