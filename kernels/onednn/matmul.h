// oneDNN matrix products built once per shape and thread, then only run.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace scaling::onednn {

/// destination (m, n) = source (m, k) weights (k, n) + bias (n). Bias, relu and accumulation are
/// optional; destination is f32, source and weights are both f32 or both bf16.
struct Product {
  dnnl::memory::dim m, k, n;
  dnnl::memory::dim source_stride;  ///< elements between rows of the source
  /// true: element (m, k) of the source lies at k * source_stride + m.
  bool source_transposed;
  dnnl::memory::dim destination_stride;
  /// true: element (k, n) of weights lies at n * k_count + k, else at k * n_count + n.
  bool weights_transposed;
  bool half;  ///< source and weights are bf16
  bool bias;
  bool relu;
  bool accumulate;
  int threads;  ///< the plan depends on it

  auto operator<=>(const Product&) const = default;
};

/// Runs the product; false, with nothing done, if oneDNN has no implementation for it here.
bool run(const Product& product, const void* source, const void* weights, const float* bias,
         float* destination);

}  // namespace scaling::onednn
