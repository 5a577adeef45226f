// The portable SIMD set as a whole.
#include "kernels/simd/simd.h"

namespace scaling {

const KernelSet& simd_kernels() {
  static const KernelSet set = {
      .name = "simd",
      .description = "portable SIMD (Highway), 8 or 16 weight streams with software prefetch",
      .own = {"dense", "dense_transposed", "controller", "gather_dot", "gather_accumulate",
              "multiplicative", "module_convolution", "layer_norm", "softmax", "attend", "argmax"},
      .rounds_activations = false,
      .takes_pieces = true,
      .dense = simd::dense,
      .dense_transposed = simd::dense_transposed,
      .controller = simd::controller,
      .gather_dot = simd::gather_dot,
      .gather_accumulate = simd::gather_accumulate,
      .multiplicative = simd::multiplicative,
      .module_convolution = simd::module_convolution,
      .layer_norm = simd::layer_norm,
      .softmax = simd::softmax,
      .attend = simd::attend,
      .argmax = simd::argmax};
  return set;
}

}  // namespace scaling
