// Exact dot-product attention to every key (paper 4.1, 4.2).
#pragma once

#include <memory>

#include "models/layers/attention/pattern_attention.h"
#include "models/layers/attention/patterns/all.h"
#include "models/layers/traits.h"

namespace scaling {

class FullAttention : public PatternAttention {
 public:
  static constexpr Traits kTraits{.is_dense = true, .shares_heads = true, .has_streams = true};
  using Options = PatternKnobs;
  explicit FullAttention(const ModelConfig& config)
      : PatternAttention(config, std::make_unique<AllKeys>()) {}
};

class FullCrossAttention : public CrossAttention {
 public:
  static constexpr Traits kTraits{.is_dense = true};
  explicit FullCrossAttention(const ModelConfig& config)
      : tiles_{config.n_heads, config.d_head(), std::make_unique<AllKeys>(), nullptr} {}
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override {
    return tiles_.make_activations();
  }
  using CrossAttention::forward;
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override {
    tiles_.forward(pass, q, k, v, mask, kept, o);
  }
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override {
    tiles_.backward(pass, q, k, v, mask, kept, do_, dq, dk, dv);
  }
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override {
    return std::make_unique<KeyValueCache>(tokens, tiles_.heads, capacity, tiles_.d_head);
  }
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override {
    return KeyValueCache::bytes(tokens, tiles_.heads, capacity, tiles_.d_head);
  }
  void fill(const StepContext& ctx, AttentionCache& cache, std::int64_t first, int n,
            const float* k, const float* v) const override;
  void step(const StepContext& ctx, AttentionCache& cache, std::int64_t length, const float* q,
            float* o) const override;
  Cost step_cost(int tokens, std::int64_t length) const override;
  AttentionWork work(std::int64_t queries, std::int64_t keys) const override;
  double activation_floats(std::int64_t queries, std::int64_t) const override {
    return double(queries) * tiles_.activation_floats();
  }
  double thread_floats(std::int64_t queries, std::int64_t keys) const override {
    return tiles_.thread_floats(queries, keys);
  }

 private:
  TiledAttention tiles_;
};

}  // namespace scaling
