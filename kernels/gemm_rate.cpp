// How fast the linked libraries multiply large matrices: the practical limit of batched work.
#include "kernels/gemm_rate.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/libraries.h"
#include "kernels/random.h"

namespace scaling {
namespace {

using Shape = std::array<std::int64_t, 3>;  // rows, in, out

double seconds_of(const Gemm& gemm, Shape shape, const std::vector<float>& a,
                  std::vector<float>& c) {
  const auto [rows, in, out] = shape;
  const Clock::time_point start = Clock::now();
  gemm.product(false, true, rows, out, in, a.data(), in, a.data(), in, 0, c.data(), out);
  gemm.product(true, false, out, in, rows, a.data(), out, a.data(), in, 0, c.data(), in);
  gemm.product(false, false, rows, in, out, a.data(), out, a.data(), in, 0, c.data(), in);
  return seconds_since(start);
}

const Gemm& measured_fastest(Shape shape) {
  const auto [rows, in, out] = shape;
  const std::int64_t most = std::max({rows * in, rows * out, in * out});
  const std::vector<float> a(std::size_t(most), 0.5f);
  std::vector<float> c(a.size());
  std::vector<double> seconds(gemms().size(), 1e9);
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (std::size_t i = 0; i < gemms().size(); ++i) {
      seconds[i] = std::min(seconds[i], seconds_of(gemms()[i], shape, a, c));
    }
  }
  return gemms()[std::size_t(std::min_element(seconds.begin(), seconds.end()) - seconds.begin())];
}

}  // namespace

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
    const Clock::time_point start = Clock::now();
    set.dense(weights, nullptr, a.data(), int(n), c.data(), {0, n}, false);
    const double seconds = seconds_since(start);
    const double flops = 2.0 * double(n) * double(n) * double(n);
    if (repeat > 0) best = std::max(best, flops / seconds * 1e-9);
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

const Gemm& fastest_gemm(std::int64_t rows, std::int64_t in, std::int64_t out) {
  // Larger products would take seconds before a curve begins.
  constexpr std::int64_t kMost = 1024;
  const Shape shape = {std::min(rows, kMost), std::min(in, kMost), std::min(out, kMost)};
  static std::map<Shape, const Gemm*> known;
  const Gemm*& found = known[shape];
  if (!found) found = &measured_fastest(shape);
  return *found;
}

}  // namespace scaling
