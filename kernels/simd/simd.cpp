// The portable SIMD set as a whole.
#include "kernels/simd/simd.h"

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#endif

namespace scaling {
namespace simd {
namespace {

Prefetch default_prefetch() {
#if defined(__GNUC__) && defined(__x86_64__)
  if (__builtin_cpu_is("amd")) {
    constexpr unsigned kZen5 = 26;
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    const unsigned family = ((a >> 8) & 15) + ((a >> 20) & 255);  // as AMD counts from 15 on
    return family < kZen5 ? Prefetch::by_processor_of_four : Prefetch::by_processor_of_two;
  }
#endif
  return Prefetch::by_kernel;
}

const char* description() {
  switch (prefetch_by()) {
    case Prefetch::by_kernel:
      return "portable SIMD (Highway); dense: 8 or 16 rows, software prefetch";
    case Prefetch::by_processor_of_four:
      return "portable SIMD (Highway); dense: 4 rows in strips, the processor's prefetch";
    case Prefetch::by_processor_of_two:
      break;
  }
  return "portable SIMD (Highway); dense: 2 rows in strips, the processor's prefetch";
}

Prefetch& chosen_prefetch() {
  static Prefetch by = default_prefetch();
  return by;
}

}  // namespace

Prefetch prefetch_by() { return chosen_prefetch(); }
void set_prefetch_by(Prefetch by) { chosen_prefetch() = by; }

}  // namespace simd

const KernelSet& simd_kernels() {
  static const KernelSet set = {
      .name = "simd",
      .description = simd::description(),
      .own = {"dense", "dense_transposed", "controller", "gather_dot", "gather_accumulate",
              "multiplicative", "module_convolution", "layer_norm", "softmax", "attend",
              "attend_entmax", "argmax"},
      .rounds_activations = false,
      .takes_pieces = true,
      // Measured where the processor prefetches (Zen 4); sixteen rows share what they read of x.
      .dense_layout =
          simd::prefetch_by() == simd::Prefetch::by_kernel ? Layout::rows : Layout::strips,
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
      .attend_entmax = simd::attend_entmax,
      .argmax = simd::argmax};
  return set;
}

}  // namespace scaling
