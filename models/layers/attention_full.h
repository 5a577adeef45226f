// Exact dot-product attention over a key/value cache (reference 4.1, 4.2).
#pragma once

#include "models/layer.h"

namespace scaling {

class FullAttention : public Attention {
 public:
  explicit FullAttention(const ModelConfig& config);
  std::int64_t workspace_floats(int, int) const override { return 0; }
  Mat forward(const Mat& q, const Mat& k, const Mat& v, bool causal) const override;
  void step(const StepContext& ctx, KeyValueCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  void step_fixed(const StepContext& ctx, KeyValueCache& cache, std::int64_t length, const float* q,
                  float* o) const override;
  Cost step_cost(int tokens, std::int64_t length) const override;

 private:
  std::int64_t heads_, d_head_;
};

}  // namespace scaling
