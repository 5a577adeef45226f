// Dense products by Eigen, on f32 weights; all else is simd's.
#include <Eigen/Core>
#include <string>

#include "kernels/check.h"
#include "kernels/libraries.h"
#include "kernels/openmp_threads.h"
#include "kernels/rounded_product.h"

namespace scaling {
namespace {

int threads_of_calls = 1;

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Weights = Eigen::Map<const Matrix>;
using Rows = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
using MutableRows = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;
using Vector = Eigen::Map<const Eigen::VectorXf>;
using MutableVector = Eigen::Map<Eigen::VectorXf>;

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu) {
  SCALING_CHECK(w.layout == Layout::rows);
  if (w.type != WeightType::f32) {
    return simd_kernels().dense(w, bias, x, tokens, y, outputs, relu);
  }
  if (outputs.size() <= 0) return;
  use_openmp_threads(threads_of_calls);
  const Weights weights(w.f32() + outputs.begin * w.cols, outputs.size(), w.cols);
  // One row is a vector to Eigen only if its type says so: the general product would pack the
  // weights.
  if (tokens == 1) {
    MutableVector out(y + outputs.begin, outputs.size());
    out.noalias() = weights * Vector(x, w.cols);
    if (bias) out += Vector(bias + outputs.begin, outputs.size());
    if (relu) out = out.cwiseMax(0.0f);
    return;
  }
  MutableRows out(y + outputs.begin, tokens, outputs.size(), Eigen::OuterStride<>(w.rows));
  out.noalias() = Rows(x, tokens, w.cols, Eigen::OuterStride<>(w.cols)) * weights.transpose();
  if (bias) out.rowwise() += Vector(bias + outputs.begin, outputs.size()).transpose();
  if (relu) out = out.cwiseMax(0.0f);
}

void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs) {
  SCALING_CHECK(w.layout == Layout::rows);
  if (w.type != WeightType::f32) {
    return simd_kernels().dense_transposed(w, h, tokens, y, inputs);
  }
  if (inputs.size() <= 0) return;
  use_openmp_threads(threads_of_calls);
  const Weights weights(w.f32() + inputs.begin * w.cols, inputs.size(), w.cols);
  if (tokens == 1) {
    MutableVector(y, w.cols).noalias() +=
        weights.transpose() * Vector(h + inputs.begin, inputs.size());
    return;
  }
  MutableRows out(y, tokens, w.cols, Eigen::OuterStride<>(w.cols));
  out.noalias() +=
      Rows(h + inputs.begin, tokens, inputs.size(), Eigen::OuterStride<>(w.rows)) * weights;
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
          std::int64_t ldc) {
  use_openmp_threads(threads_of_calls);
  const Rows left(a, transpose_a ? k : m, transpose_a ? m : k, Eigen::OuterStride<>(lda));
  const Rows right(b, transpose_b ? n : k, transpose_b ? k : n, Eigen::OuterStride<>(ldb));
  MutableRows out(c, m, n, Eigen::OuterStride<>(ldc));
  const auto put = [&](const auto& product) {
    if (beta == 0) {
      out.noalias() = product;
    } else {
      out.noalias() += product;
    }
  };
  if (transpose_a && transpose_b) {
    put(left.transpose() * right.transpose());
  } else if (transpose_a) {
    put(left.transpose() * right);
  } else if (transpose_b) {
    put(left * right.transpose());
  } else {
    put(left * right);
  }
}

void set_threads(int threads) {
  threads_of_calls = threads;
  Eigen::setNbThreads(threads);
}

std::string description() {
  return "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
         std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION);
}

const KernelSet& kernels() {
  static const KernelSet set = [] {
    set_threads(1);
    KernelSet s = simd_kernels();
    s.takes_pieces = false;
    s.dense_f32 = s.dense_bf16 = Layout::rows;
    s.name = "eigen";
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

Library eigen_library() {
  return {"eigen", kernels, gemm, rounded_product<gemm>, set_threads, description};
}

}  // namespace scaling
