// Products by a counted library and by three loops.
#include "tests/gemms.h"

namespace scaling {
namespace {

void counted_product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, const float* a, std::int64_t lda, const float* b,
                     std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  multiplied_flops += 2 * m * n * k;
  find_gemm("eigen").product(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

void plain_product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                   std::int64_t k, const float* a, std::int64_t lda, const float* b,
                   std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = beta == 0 ? 0.0f : c[i * ldc + j];
      for (std::int64_t l = 0; l < k; ++l) {
        sum += (transpose_a ? a[l * lda + i] : a[i * lda + l]) *
               (transpose_b ? b[j * ldb + l] : b[l * ldb + j]);
      }
      c[i * ldc + j] = sum;
    }
  }
}

}  // namespace

const Gemm& counted_gemm() {
  static const Gemm gemm{"counted", counted_product, nullptr};
  return gemm;
}

const Gemm& plain_gemm() {
  static const Gemm gemm{"plain", plain_product, nullptr};
  return gemm;
}

}  // namespace scaling
