// The definition as a kernel set.
#include "kernels/ref/ref.h"

namespace scaling {

const KernelSet& ref_kernels() {
  static const KernelSet set = {
      .name = "ref",
      .description = "the definition: plain loops, double sums",
      .own = {"dense", "dense_transposed", "controller", "gather_dot", "gather_accumulate",
              "multiplicative", "module_convolution", "layer_norm", "softmax", "attend",
              "attend_entmax", "argmax"},
      .dense = ref::dense,
      .dense_transposed = ref::dense_transposed,
      .controller = ref::controller,
      .gather_dot = ref::gather_dot,
      .gather_accumulate = ref::gather_accumulate,
      .multiplicative = ref::multiplicative,
      .module_convolution = ref::module_convolution,
      .layer_norm = ref::layer_norm,
      .softmax = ref::softmax,
      .attend = ref::attend,
      .attend_entmax = ref::attend_entmax,
      .argmax = ref::argmax,
  };
  return set;
}

}  // namespace scaling
