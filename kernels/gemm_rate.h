// How fast the linked libraries multiply large matrices: the practical limit of batched work.
#pragma once

#include <cstdint>
#include <string>

namespace scaling {

/// GFLOP/s of the f32 product of two (n, n) matrices by the library behind `kernel_set` with its
/// own threads, best of five after one to warm up. The set's thread count is 1 afterwards. Throws
/// UserError if the set is not a library's.
double gemm_gflops(const std::string& kernel_set, std::int64_t n, int threads);

/// The best of all linked libraries.
double best_gemm_gflops(std::int64_t n, int threads);

}  // namespace scaling
