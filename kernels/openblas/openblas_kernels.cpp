// Dense products by OpenBLAS, on f32 weights; all else is simd's.
#include <algorithm>
#include <string>

#include "kernels/check.h"
#include "kernels/libraries.h"
#include "kernels/openblas/functions.h"
#include "kernels/openmp_threads.h"
#include "kernels/rounded_product.h"

namespace scaling {
namespace {

int threads_of_calls = 1;

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  SCALING_CHECK(w.layout == Layout::rows);
  if (w.type != WeightType::f32) {
    return simd_kernels().dense(w, bias, x, tokens, y, outputs, relu);
  }
  if (outputs.size() <= 0) return;
  use_openmp_threads(threads_of_calls);
  const float* weights = w.f32() + outputs.begin * w.cols;
  const int in = int(w.cols), out = int(outputs.size());
  if (tokens == 1) {
    openblas::functions().sgemv(CblasRowMajor, CblasNoTrans, out, in, 1, weights, in, x, 1, 0,
                                y + outputs.begin, 1);
  } else {
    openblas::functions().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, tokens, out, in, 1, x, in,
                                weights, in, 0, y + outputs.begin, int(w.rows));
  }
  if (!bias && !relu) return;
  for (int t = 0; t < tokens; ++t) {
    for (std::int64_t o = outputs.begin; o < outputs.end; ++o) {
      const float value = y[t * w.rows + o] + (bias ? bias[o] : 0.0f);
      y[t * w.rows + o] = relu ? std::max(value, 0.0f) : value;
    }
  }
}

void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  SCALING_CHECK(w.layout == Layout::rows);
  if (w.type != WeightType::f32) {
    return simd_kernels().dense_transposed(w, h, tokens, y, inputs);
  }
  if (inputs.size() <= 0) return;
  use_openmp_threads(threads_of_calls);
  const float* weights = w.f32() + inputs.begin * w.cols;
  const int in = int(inputs.size()), out = int(w.cols);
  if (tokens == 1) {
    openblas::functions().sgemv(CblasRowMajor, CblasTrans, in, out, 1, weights, out,
                                h + inputs.begin, 1, 1, y, 1);
  } else {
    openblas::functions().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, tokens, out, in, 1,
                                h + inputs.begin, int(w.rows), weights, out, 1, y, out);
  }
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
          std::int64_t ldc) {
  use_openmp_threads(threads_of_calls);
  openblas::functions().sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                              transpose_b ? CblasTrans : CblasNoTrans, int(m), int(n), int(k), 1, a,
                              int(lda), b, int(ldb), beta, c, int(ldc));
}

void set_threads(int threads) {
  threads_of_calls = threads;
  openblas::functions().set_num_threads(threads);
}

std::string description() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the version is the second word.
  const std::string config = openblas::functions().get_config();
  const std::size_t space = config.find(' ');
  const std::string version = config.substr(0, config.find(' ', space + 1));
  return version + ", core " + openblas::functions().get_corename();
}

const KernelSet& kernels() {
  static const KernelSet set = [] {
    set_threads(1);
    KernelSet s = simd_kernels();
    s.takes_pieces = false;
    s.dense_f32 = s.dense_bf16 = Layout::rows;
    s.name = "openblas";
    s.description = description() + ": f32 dense products; the rest is simd's";
    s.own = {"dense", "dense_transposed"};
    s.own_types = {WeightType::f32};
    s.dense = dense;
    s.dense_transposed = dense_transposed;
    return s;
  }();
  return set;
}

}  // namespace

Library openblas_library() {
  return {"openblas", kernels, gemm, rounded_product<gemm>, set_threads, description};
}

}  // namespace scaling
