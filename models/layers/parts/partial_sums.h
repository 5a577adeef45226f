// Sums that threads build over their shares of the input and then add up by shares of the output.
#pragma once

#include <cstdint>

#include "models/layer.h"

namespace scaling {

/// Floats rounded up to a cache line, so that neighbouring pieces of a workspace share none.
inline std::int64_t padded(std::int64_t floats) { return (floats + 15) / 16 * 16; }

/// One partial sum (tokens, width) per thread, in `base` (threads * padded(tokens * width) floats).
struct PartialSums {
  float* base;
  std::int64_t width;
  int tokens;

  static std::int64_t floats(std::int64_t width, int tokens, int threads) {
    return threads * padded(tokens * width);
  }
  float* of(int thread) const { return base + thread * padded(tokens * width); }
  /// The thread's own sum, zeroed.
  float* start(int thread) const;
  /// y[t][c] = sum over `parts` of the sums + bias[c], for the caller's share of columns c. parts:
  /// which threads' sums were started. bias may be null. Needs a barrier before and after.
  void reduce(const StepContext& ctx, Range parts, const float* bias, float* y) const;
  void reduce(const StepContext& ctx, const float* bias, float* y) const {
    reduce(ctx, {0, ctx.threads}, bias, y);
  }
};

}  // namespace scaling
