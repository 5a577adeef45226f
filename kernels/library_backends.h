// What each library's files offer to library_threads.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace scaling {

/// GemmFunction of each library (kernels/gemm.h).
void eigen_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                float* c, std::int64_t ldc);
void openblas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                   std::int64_t k, const float* a, std::int64_t lda, const float* b,
                   std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void onednn_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                 const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
                 float* c, std::int64_t ldc);

void set_eigen_threads(int threads);
std::string eigen_description();
void set_openblas_threads(int threads);
std::string openblas_description();
void set_onednn_threads(int threads);
std::string onednn_description();

}  // namespace scaling
