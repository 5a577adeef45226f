// The one explicit list of kernel sets.
#include <algorithm>

#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/libraries.h"

namespace scaling {

const std::vector<const KernelSet*>& kernel_sets() {
  static const std::vector<const KernelSet*> sets = [] {
    std::vector<const KernelSet*> all = {&ref_kernels(), &simd_kernels()};
    if (const KernelSet* bf16_dot = bf16_dot_kernels()) all.push_back(bf16_dot);
    for (const Library& library : libraries()) all.push_back(&library.kernels());
    return all;
  }();
  return sets;
}

const KernelSet& find_kernel_set(const std::string& name) {
  std::string known;
  for (const KernelSet* set : kernel_sets()) {
    if (set->name == name) return *set;
    known += (known.empty() ? "" : ", ") + set->name;
  }
  throw UserError("kernel set '" + name + "' is not in this build; it has: " + known);
}

}  // namespace scaling
