// Which library multiplies.
#include "kernels/gemm.h"

#include "kernels/check.h"
#include "kernels/libraries.h"
#include "kernels/openmp_threads.h"

namespace scaling {
const std::vector<Gemm>& gemms() {
  static const std::vector<Gemm> all = [] {
    std::vector<Gemm> found;
    for (const Library& library : libraries()) {
      found.push_back({library.name, library.gemm, library.bf16_gemm});
    }
    return found;
  }();
  return all;
}

const Gemm& find_gemm(const std::string& name) {
  // The last of libraries(): onednn, else openblas, else eigen.
  if (name == "auto") return gemms().back();
  std::string known = "auto";
  for (const Gemm& gemm : gemms()) {
    if (name == gemm.name) return gemm;
    known += std::string(", ") + gemm.name;
  }
  throw UserError("unknown gemm '" + name + "'; known: " + known);
}

void set_gemm_threads(int threads) {
  for (const Library& library : libraries()) set_library_threads(library.name, threads);
  use_openmp_threads(threads);
}

}  // namespace scaling
