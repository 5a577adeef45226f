// Exact dot-product attention over a key/value cache (reference 4.1, 4.2).
#pragma once

#include "models/layer.h"

namespace scaling {

/// Memory is linear in length: of the probabilities, backward finds no more than their normalisers.
class FullAttention : public Attention {
 public:
  explicit FullAttention(const ModelConfig& config);
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using Attention::forward;
  /// Logits of padding keys are replaced by -1e9, so a query that may see none but padding weighs
  /// its keys (under a causal mask those up to its position) equally; keys after the query are left
  /// out.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  void step(const StepContext& ctx, KeyValueCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  void step_fixed(const StepContext& ctx, KeyValueCache& cache, std::int64_t length, const float* q,
                  float* o) const override;
  Cost step_cost(int tokens, std::int64_t length) const override;
  /// Every pair, of padding too.
  AttentionWork work(std::int64_t queries, std::int64_t keys, bool causal) const override;
  double activation_floats() const override { return double(heads_ * (d_head_ + 2)); }

 private:
  std::int64_t heads_, d_head_;
};

}  // namespace scaling
