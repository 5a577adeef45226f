// How fast the linked libraries multiply large matrices: the practical limit of batched work.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/gemm.h"

namespace scaling {

/// GFLOP/s of the f32 product of two (n, n) matrices by the library behind `kernel_set` with its
/// own threads, best of five after one to warm up. The set's thread count is 1 afterwards. Throws
/// UserError if the set is not a library's.
double gemm_gflops(const std::string& kernel_set, std::int64_t n, int threads);

/// The best of all linked libraries.
double best_gemm_gflops(std::int64_t n, int threads);

/// The fastest of gemms() at what a layer multiplies in a training step: y = x w', and dw = dy' x
/// and dx = dy w of dy (rows, out), with x (rows, in) and w (out, in), sizes above 1,024 taken as
/// that. Measured when a shape is first asked for, by the threads that libraries have then; not to
/// be asked by two threads at once.
const Gemm& fastest_gemm(std::int64_t rows, std::int64_t in, std::int64_t out);

}  // namespace scaling
