// What self-attention refuses, and decoding of cross-attention: sums are shared among the threads
// by rows while they are filled, by heads while they are read.
#include "models/layers/attention/linformer.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"

namespace scaling {
namespace {

[[noreturn]] void refuse_causal(const char* what) {
  throw UserError(
      std::string("attention linformer cannot ") + what +
      ": it adds up all positions before a query meets them, the later ones too; take a "
      "task that is read from both sides (masked), or another attention");
}

}  // namespace

void LinformerAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                 const AttentionMask& mask, Activations& kept, Mat& o) const {
  if (mask.causal) refuse_causal("be causal");
  sums_.forward(pass, q, k, v, mask, kept, o);
}

std::unique_ptr<AttentionCache> LinformerAttention::make_cache(int, std::int64_t) const {
  refuse_causal("decode");
}

void LinformerAttention::step(const StepContext&, AttentionCache&, const float*, const float*,
                              const float*, float*) const {
  refuse_causal("decode");
}

// -- decoding of cross-attention ------------------------------------------------------------------

std::unique_ptr<AttentionCache> LinformerCrossAttention::make_cache(int tokens,
                                                                    std::int64_t capacity) const {
  sums_.require_length(capacity);
  return std::make_unique<KeyValueCache>(tokens, sums_.heads(), sums_.rank(), sums_.d_head());
}

void LinformerCrossAttention::fill(const StepContext& ctx, AttentionCache& of_branch,
                                   std::int64_t first, int n, const float* k,
                                   const float* v) const {
  auto& cache = static_cast<KeyValueCache&>(of_branch);
  const std::int64_t d = cache.d_head, width = cache.heads * d;
  SCALING_CHECK(first + n <= sums_.length());
  const auto add = [&](const Parameter& weights, std::int64_t row, const float* from, float* sum) {
    if (first == 0) std::fill_n(sum, d, 0.0f);
    for (int t = 0; t < n; ++t) {
      const float weight = weights.get(row, first + t);
      for (std::int64_t i = 0; i < d; ++i) sum[i] += weight * from[t * width + i];
    }
  };
  const Range share = ctx.share(cache.capacity);
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    for (std::int64_t head = 0; head < cache.heads; ++head) {
      float* const keys = cache.keys_of(0, head) + row * d;
      float* const values = cache.values_of(0, head) + row * d;
      add(sums_.of_keys(), row, k + head * d, keys);
      add(sums_.of_values(), row, v + head * d, values);
      // The source is the same for every sequence.
      for (int token = 1; token < cache.tokens; ++token) {
        std::copy_n(keys, d, cache.keys_of(token, head) + row * d);
        std::copy_n(values, d, cache.values_of(token, head) + row * d);
      }
    }
  }
}

void LinformerCrossAttention::step(const StepContext& ctx, AttentionCache& of_branch, std::int64_t,
                                   const float* q, float* o) const {
  static_cast<KeyValueCache&>(of_branch).attend(ctx, sums_.rank(), q, o);
}

Cost LinformerCrossAttention::step_cost(int tokens, std::int64_t) const {
  return KeyValueCache::attend_cost(tokens, sums_.heads(), sums_.rank(), sums_.d_head());
}

}  // namespace scaling
