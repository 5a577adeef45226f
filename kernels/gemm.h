// Large matrix products for training, by whichever library is named.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace scaling {

/// C (m, n) = A' (m, k) B' (k, n) + beta C, all row-major with leading dimensions in floats; A' is
/// A or its transpose, B' likewise. beta is 0 (C need not be initialised) or 1. Uses the library's
/// own threads (see set_gemm_threads) and gives the same bits for the same arguments and thread
/// count.
using GemmFunction = void (*)(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                              std::int64_t k, const float* a, std::int64_t lda, const float* b,
                              std::int64_t ldb, float beta, float* c, std::int64_t ldc);

struct Gemm {
  const char* name;  ///< eigen, openblas, onednn
  GemmFunction product;
  /// Of A and B rounded to bf16 (nearest, ties to even); products are exact and sums f32, in an
  /// order of its own. By the processor's bf16 products where library and processor have them, else
  /// by `product`, and slower than that.
  GemmFunction bf16_product;
};

/// Those in this build; eigen is always one.
const std::vector<Gemm>& gemms();
/// Throws UserError listing the known ones if the name is unknown. "auto" is the first that this
/// build has of onednn, openblas and eigen, and no matter of speed: a curve must not depend on how
/// busy the machine was when it began.
const Gemm& find_gemm(const std::string& name);
/// The same library, whose `product` is its bf16_product.
inline Gemm rounding(const Gemm& gemm) { return {gemm.name, gemm.bf16_product, gemm.bf16_product}; }
/// Threads each product may start, for all libraries; also of parallel_for.
void set_gemm_threads(int threads);

}  // namespace scaling
