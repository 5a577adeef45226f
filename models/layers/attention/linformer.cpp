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
  sums_.require_length(first + n);
  const Range share = ctx.share(cache.capacity);
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    for (int t = 0; t < n; ++t) {
      const float of_keys = sums_.of_keys().get(row, first + t);
      const float of_values = sums_.of_values().get(row, first + t);
      const bool begins = first + t == 0;
      const auto add = [&](float weight, const float* from, float* to) {
        if (begins) std::fill_n(to, d, 0.0f);
        for (std::int64_t i = 0; i < d; ++i) to[i] += weight * from[i];
      };
      for (int token = 0; token < cache.tokens; ++token) {
        for (std::int64_t head = 0; head < cache.heads; ++head) {
          const std::int64_t from = t * width + head * d;
          add(of_keys, k + from, cache.keys_of(token, head) + row * d);
          add(of_values, v + from, cache.values_of(token, head) + row * d);
        }
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
