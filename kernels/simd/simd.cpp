// The portable SIMD set as a whole.
#include "kernels/simd/simd.h"

#include <algorithm>
#include <iterator>

#if defined(__GNUC__) && defined(__x86_64__)
#include <cpuid.h>
#endif

namespace scaling {
namespace simd {
namespace {

#if defined(__GNUC__) && defined(__x86_64__)
struct Processor {
  unsigned family, model;  // as displayed: with the extended fields added
};

Processor processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  return {((a >> 8) & 15) + ((a >> 20) & 255), ((a >> 4) & 15) | ((a >> 12) & 0xf0)};
}

/// A Xeon from Sapphire Rapids on. Virtual machines may hide AMX or the model, seldom both.
bool is_newer_xeon() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmxTile = 1u << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAmxTile)) return true;
  constexpr unsigned kXeons[] = {143, 207, 173, 174};  // Sapphire, Emerald, Granite Rapids and -D
  const auto [family, model] = processor();
  return family == 6 && std::ranges::find(kXeons, model) != std::end(kXeons);
}
#endif

Prefetch default_prefetch() {
#if defined(__GNUC__) && defined(__x86_64__)
  constexpr unsigned kZen5 = 26;
  if (__builtin_cpu_is("amd")) {
    return processor().family < kZen5 ? Prefetch::by_processor_of_four
                                      : Prefetch::by_processor_of_two;
  }
  if (__builtin_cpu_is("intel") && is_newer_xeon()) return Prefetch::by_kernel_far;
#endif
  return Prefetch::by_kernel;
}

const char* description() {
  switch (prefetch_by()) {
    case Prefetch::by_kernel:
      return "portable SIMD (Highway); dense: 8 or 16 rows, software prefetch";
    case Prefetch::by_kernel_far:
      return "portable SIMD (Highway); dense: 4 rows in strips (f32), 8 or 16 rows (bf16), "
             "software prefetch";
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
      // Sixteen rows share what they read of x; for fewer it is to stay in a first-level cache.
      .dense_f32 = simd::prefetch_by() == simd::Prefetch::by_kernel ? Layout::rows : Layout::strips,
      .dense_bf16 = simd::is_by_processor(simd::prefetch_by()) ? Layout::strips : Layout::rows,
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
