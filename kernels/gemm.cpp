// Which library multiplies, and which of them is fastest.
#include "kernels/gemm.h"

#include <algorithm>
#include <chrono>

#include "kernels/check.h"
#include "kernels/libraries.h"
#include "kernels/openmp_threads.h"

namespace scaling {
namespace {

double seconds_of(const Gemm& gemm, const std::vector<float>& a, std::vector<float>& c,
                  std::int64_t n) {
  const auto start = std::chrono::steady_clock::now();
  gemm.product(false, false, n, n, n, a.data(), n, a.data(), n, 0, c.data(), n);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const Gemm& fastest() {
  static const Gemm& best = []() -> const Gemm& {
    constexpr std::int64_t n = 1024;
    const std::vector<float> a(std::size_t(n * n), 0.5f);
    std::vector<float> c(a.size());
    std::vector<double> seconds(gemms().size(), 1e9);
    for (int repeat = 0; repeat < 5; ++repeat) {
      for (std::size_t i = 0; i < gemms().size(); ++i) {
        seconds[i] = std::min(seconds[i], seconds_of(gemms()[i], a, c, n));
      }
    }
    return gemms()[std::size_t(std::min_element(seconds.begin(), seconds.end()) - seconds.begin())];
  }();
  return best;
}

}  // namespace

const std::vector<Gemm>& gemms() {
  static const std::vector<Gemm> all = [] {
    std::vector<Gemm> found;
    for (const Library& library : libraries()) found.push_back({library.name, library.gemm});
    return found;
  }();
  return all;
}

const Gemm& find_gemm(const std::string& name) {
  if (name == "auto") return fastest();
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
