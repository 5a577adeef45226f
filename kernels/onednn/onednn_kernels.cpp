// Dense products by oneDNN; all else is simd's. It multiplies bf16 weights only with bf16
// activations, so there activations are rounded first, as in bf16_dot; sums are f32.
#include <oneapi/dnnl/dnnl.h>

#include <string>
#include <vector>

#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/check.h"
#include "kernels/libraries.h"
#include "kernels/onednn/matmul.h"
#include "kernels/openmp_threads.h"
#include "kernels/rounded_product.h"

namespace scaling {
namespace {

int threads_of_calls = 1;

/// Columns `part` of x (tokens, stride) as bf16, (tokens, part.size()).
const bf16* rounded(const float* x, int tokens, std::int64_t stride, Range part) {
  thread_local std::vector<bf16> half;
  half.resize(std::size_t(tokens * part.size()));
  round_rows(x + part.begin, tokens, part.size(), stride, half.data());
  return half.data();
}

const void* weight_row(const WeightView& w, std::int64_t row) {
  return static_cast<const char*>(w.data) + row * w.cols * bytes_of(w.type);
}

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  SCALING_CHECK(w.layout == Layout::rows);
  if (outputs.size() <= 0) return;
  use_openmp_threads(threads_of_calls);
  const bool half = w.type == WeightType::bf16;
  const onednn::Product product = {.m = tokens,
                                   .k = w.cols,
                                   .n = outputs.size(),
                                   .source_stride = w.cols,
                                   .source_transposed = false,
                                   .destination_stride = w.rows,
                                   .weights_transposed = true,
                                   .half = half,
                                   .bias = bias != nullptr,
                                   .relu = relu,
                                   .accumulate = false,
                                   .threads = threads_of_calls};
  const void* source = x;
  if (half) source = rounded(x, tokens, w.cols, {0, w.cols});
  if (!onednn::run(product, source, weight_row(w, outputs.begin),
                   bias ? bias + outputs.begin : nullptr, y + outputs.begin)) {
    simd_kernels().dense(w, bias, x, tokens, y, outputs, relu);
  }
}

void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  SCALING_CHECK(w.layout == Layout::rows);
  if (inputs.size() <= 0) return;
  use_openmp_threads(threads_of_calls);
  const bool half = w.type == WeightType::bf16;
  const onednn::Product product = {.m = tokens,
                                   .k = inputs.size(),
                                   .n = w.cols,
                                   .source_stride = half ? inputs.size() : w.rows,
                                   .source_transposed = false,
                                   .destination_stride = w.cols,
                                   .weights_transposed = false,
                                   .half = half,
                                   .bias = false,
                                   .relu = false,
                                   .accumulate = true,
                                   .threads = threads_of_calls};
  const void* source = h + inputs.begin;
  if (half) source = rounded(h, tokens, w.rows, inputs);
  if (!onednn::run(product, source, weight_row(w, inputs.begin), nullptr, y)) {
    simd_kernels().dense_transposed(w, h, tokens, y, inputs);
  }
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
          std::int64_t ldc) {
  use_openmp_threads(threads_of_calls);
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k,
                                          1, a, lda, b, ldb, beta, c, ldc);
  SCALING_CHECK(status == dnnl_success);
}

/// Below these FLOPs a product that is planned costs more than it saves.
constexpr std::int64_t kLeastPlanned = 1 << 18;

void bf16_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta,
               float* c, std::int64_t ldc) {
  if (bf16_dot::is_supported() && 2 * m * n * k >= kLeastPlanned) {
    use_openmp_threads(threads_of_calls);
    const onednn::Product product = {.m = m,
                                     .k = k,
                                     .n = n,
                                     .source_stride = transpose_a ? m : k,
                                     .source_transposed = transpose_a,
                                     .destination_stride = ldc,
                                     .weights_transposed = transpose_b,
                                     .half = true,
                                     .bias = false,
                                     .relu = false,
                                     .accumulate = beta != 0,
                                     .threads = threads_of_calls};
    thread_local std::vector<bf16> left, right;
    const bf16* const source = rounded_side(transpose_a, m, k, a, lda, left);
    const bf16* const weights = rounded_side(transpose_b, k, n, b, ldb, right);
    if (onednn::run(product, source, weights, nullptr, c)) return;
  }
  rounded_product<gemm>(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

void set_threads(int threads) { threads_of_calls = threads; }

std::string description() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
}

const KernelSet& kernels() {
  static const KernelSet set = [] {
    KernelSet s = simd_kernels();
    s.takes_pieces = false;
    s.dense_f32 = s.dense_bf16 = Layout::rows;
    s.name = "onednn";
    s.description = description() +
                    ": dense products, activations rounded to bf16 for bf16 weights; the rest is "
                    "simd's";
    s.own = {"dense", "dense_transposed"};
    s.rounds_activations = true;
    s.dense = dense;
    s.dense_transposed = dense_transposed;
    return s;
  }();
  return set;
}

}  // namespace

Library onednn_library() { return {"onednn", kernels, gemm, bf16_gemm, set_threads, description}; }

}  // namespace scaling
