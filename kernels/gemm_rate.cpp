// How fast the linked libraries multiply large matrices: the practical limit of batched work.
#include "kernels/gemm_rate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "kernels/check.h"
#include "kernels/libraries.h"
#include "kernels/random.h"

namespace scaling {

double gemm_gflops(const std::string& kernel_set, std::int64_t n, int threads) {
  if (library_description(kernel_set).empty()) {
    throw UserError("kernel set '" + kernel_set +
                    "' has no library to multiply matrices with; eigen always has");
  }
  const KernelSet& set = find_kernel_set(kernel_set);
  std::vector<float> a(std::size_t(n * n)), b(a.size()), c(a.size());
  Rng rng(1);
  for (float& v : a) v = rng.uniform(-1, 1);
  for (float& v : b) v = rng.uniform(-1, 1);
  const WeightView weights = {b.data(), WeightType::f32, Layout::rows, n, n};

  // The libraries' dense is one call of their matrix product for any number of rows, not only up to
  // kMaxTokens.
  set_library_threads(kernel_set, threads);
  double best = 0;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    set.dense(weights, nullptr, a.data(), int(n), c.data(), {0, n}, false);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double flops = 2.0 * double(n) * double(n) * double(n);
    if (repeat > 0) best = std::max(best, flops / seconds.count() * 1e-9);
  }
  set_library_threads(kernel_set, 1);
  return best;
}

double best_gemm_gflops(std::int64_t n, int threads) {
  double best = 0;
  for (const Library& library : libraries()) {
    best = std::max(best, gemm_gflops(library.name, n, threads));
  }
  return best;
}

}  // namespace scaling
