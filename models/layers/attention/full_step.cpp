// Decoding with exact attention: heads of all tokens are shared among the threads; a head's cache
// is read by one thread only.
#include <algorithm>

#include "kernels/check.h"
#include "models/layers/attention/full.h"

namespace scaling {

KeyValueCache::KeyValueCache(int tokens_, std::int64_t heads_, std::int64_t capacity_,
                             std::int64_t d_head_)
    : tokens(tokens_), heads(heads_), capacity(capacity_), d_head(d_head_) {
  const std::size_t positions = std::size_t(tokens * heads * capacity);
  keys.resize(positions * std::size_t(d_head));
  values.resize(positions * std::size_t(d_head));
  scores.resize(positions);
}

float* KeyValueCache::keys_of(int token, std::int64_t head) {
  return keys.data() + (token * heads + head) * capacity * d_head;
}

float* KeyValueCache::values_of(int token, std::int64_t head) {
  return values.data() + (token * heads + head) * capacity * d_head;
}

float* KeyValueCache::scores_of(int token, std::int64_t head) {
  return scores.data() + (token * heads + head) * capacity;
}

void FullAttention::step(const StepContext& ctx, KeyValueCache& cache, const float* q,
                         const float* k, const float* v, float* o) const {
  SCALING_CHECK(ctx.position < cache.capacity);
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads_);
    const std::int64_t head = unit % heads_, at = unit * d_head_;
    float* keys = cache.keys_of(token, head);
    float* values = cache.values_of(token, head);
    std::copy_n(k + at, d_head_, keys + ctx.position * d_head_);
    std::copy_n(v + at, d_head_, values + ctx.position * d_head_);
    ctx.kernels.attend(q + at, keys, values, ctx.position + 1, d_head_,
                       cache.scores_of(token, head), o + at);
  }
  ctx.sync();
}

void FullAttention::step_fixed(const StepContext& ctx, KeyValueCache& cache, std::int64_t length,
                               const float* q, float* o) const {
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads_);
    const std::int64_t head = unit % heads_, at = unit * d_head_;
    ctx.kernels.attend(q + at, cache.keys_of(token, head), cache.values_of(token, head), length,
                       d_head_, cache.scores_of(token, head), o + at);
  }
  ctx.sync();
}

Cost FullAttention::step_cost(int tokens, std::int64_t length) const {
  const double floats = 2 * double(length) * double(heads_ * d_head_) * tokens;
  return {{"attention", 0, floats * 4, 2 * floats}};
}

AttentionWork FullAttention::work(std::int64_t queries, std::int64_t keys, bool causal) const {
  const double pairs = double(queries) * (causal ? double(keys + 1) / 2 : double(keys));
  return {.pairs = double(heads_) * pairs};
}

}  // namespace scaling
