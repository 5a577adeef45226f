// Zeroing and adding up the threads' partial sums.
#include "models/layers/parts/partial_sums.h"

#include <algorithm>

namespace scaling {

float* PartialSums::start(int thread) const {
  float* own = of(thread);
  std::fill(own, own + tokens * width, 0.0f);
  return own;
}

void PartialSums::reduce(const StepContext& ctx, Range parts, const float* bias, float* y) const {
  const Range share = ctx.share(width, 16);
  const std::int64_t n = share.size();
  for (int t = 0; t < tokens; ++t) {
    float* __restrict to = y + t * width + share.begin;
    if (bias == nullptr) {
      std::fill(to, to + n, 0.0f);
    } else {
      std::copy(bias + share.begin, bias + share.end, to);
    }
    for (std::int64_t part = parts.begin; part < parts.end; ++part) {
      const float* __restrict from = of(int(part)) + t * width + share.begin;
      for (std::int64_t c = 0; c < n; ++c) to[c] += from[c];
    }
  }
}

}  // namespace scaling
