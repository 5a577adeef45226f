// Decoding of cross-attention.
#include "models/layers/attention/full.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {

void FullCrossAttention::fill(const StepContext& ctx, AttentionCache& of_branch, std::int64_t first,
                              int n, const float* k, const float* v) const {
  auto& cache = static_cast<KeyValueCache&>(of_branch);
  SCALING_CHECK(first + n <= cache.capacity);
  const std::int64_t d = tiles_.d_head, width = tiles_.heads * d;
  const Range share = ctx.share(tiles_.heads);
  for (std::int64_t head = share.begin; head < share.end; ++head) {
    for (int token = 0; token < cache.tokens; ++token) {
      for (int t = 0; t < n; ++t) {
        const std::int64_t from = t * width + head * d, to = (first + t) * d;
        std::copy_n(k + from, d, cache.keys_of(token, head) + to);
        std::copy_n(v + from, d, cache.values_of(token, head) + to);
      }
    }
  }
}

void FullCrossAttention::step(const StepContext& ctx, AttentionCache& of_branch,
                              std::int64_t length, const float* q, float* o) const {
  static_cast<KeyValueCache&>(of_branch).attend(ctx, length, q, o);
}

Cost FullCrossAttention::step_cost(int tokens, std::int64_t length) const {
  return KeyValueCache::attend_cost(tokens, tiles_.heads, length, tiles_.d_head);
}

AttentionWork FullCrossAttention::work(std::int64_t queries, std::int64_t keys) const {
  return {.pairs = double(tiles_.heads) * double(queries) * double(keys)};
}

}  // namespace scaling
