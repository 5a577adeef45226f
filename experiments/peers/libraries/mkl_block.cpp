// The dense block by Intel's Math Kernel Library: sgemv, or a matrix product on packed weights.
#include <mkl.h>

#include <algorithm>
#include <type_traits>

#include "experiments/peers/libraries/dense_block.h"

namespace peers {
namespace {

/// Weights as given, or turned to (in, out); sgemv reads them.
class Gemv : public Product {
 public:
  Gemv(const Array& w, bool in_out)
      : rows_(w.rows), cols_(w.cols), in_out_(in_out), held_(sizeof(float) * w.rows * w.cols) {
    auto* to = held_.as<float>();
    if (in_out) {
      mkl_somatcopy('R', 'T', w.rows, w.cols, 1, w.values, w.cols, to, w.rows);
    } else {
      std::copy_n(w.values, w.rows * w.cols, to);
    }
  }

  void run(const float* x, const After& after, float* y) override {
    const float keep = after.add ? 1 : 0;
    const auto* w = held_.as<const float>();
    if (in_out_) {
      cblas_sgemv(CblasRowMajor, CblasTrans, cols_, rows_, 1, w, rows_, x, 1, keep, y, 1);
    } else {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, rows_, cols_, 1, w, cols_, x, 1, keep, y, 1);
    }
    finish(after, rows_, y);
  }

 private:
  MKL_INT rows_, cols_;
  bool in_out_;
  Memory held_;
};

/// y = W x in column-major order, (rows, cols) times (cols, 1): W is packed as A. Or
/// y' = x' W', (1, cols) times (cols, rows): W' is packed as B.
class Packed : public Product {
 public:
  Packed(const Array& w, CBLAS_IDENTIFIER as)
      : rows_(w.rows),
        cols_(w.cols),
        m_(as == CblasAMatrix ? rows_ : 1),
        n_(as == CblasAMatrix ? 1 : rows_),
        as_(as),
        held_(cblas_sgemm_pack_get_size(as, m_, n_, cols_)) {
    // Row-major (rows, cols) is column-major (cols, rows): transposed as A, as it is as B.
    cblas_sgemm_pack(CblasColMajor, as, as == CblasAMatrix ? CblasTrans : CblasNoTrans, m_, n_,
                     cols_, 1, w.values, cols_, held_.as<float>());
  }

  void run(const float* x, const After& after, float* y) override {
    const float keep = after.add ? 1 : 0;
    const auto* w = held_.as<const float>();
    if (as_ == CblasAMatrix) {
      cblas_sgemm_compute(CblasColMajor, CblasPacked, CblasNoTrans, m_, n_, cols_, w, rows_, x,
                          cols_, keep, y, rows_);
    } else {
      cblas_sgemm_compute(CblasColMajor, CblasNoTrans, CblasPacked, m_, n_, cols_, x, 1, w, cols_,
                          keep, y, 1);
    }
    finish(after, rows_, y);
  }

 private:
  MKL_INT rows_, cols_, m_, n_;
  CBLAS_IDENTIFIER as_;
  Memory held_;
};

/// The same with weights in bf16, plain or packed; activations are rounded, sums are f32.
class Bf16 : public Product {
 public:
  Bf16(const Array& w, CBLAS_IDENTIFIER as, bool packed)
      : rows_(w.rows),
        cols_(w.cols),
        m_(as == CblasAMatrix ? rows_ : 1),
        n_(as == CblasAMatrix ? 1 : rows_),
        as_(as),
        packed_(packed),
        held_(packed ? cblas_gemm_bf16bf16f32_pack_get_size(as, m_, n_, cols_)
                     : sizeof(MKL_BF16) * w.rows * w.cols),
        x_(w.cols) {
    const Memory half(packed ? sizeof(MKL_BF16) * w.rows * w.cols : 0);
    auto* to = packed ? half.as<MKL_BF16>() : held_.as<MKL_BF16>();
    for (std::int64_t i = 0; i < w.rows * w.cols; ++i) to[i] = to_bf16(w.values[i]);
    if (!packed) return;
    cblas_gemm_bf16bf16f32_pack(CblasColMajor, as, as == CblasAMatrix ? CblasTrans : CblasNoTrans,
                                m_, n_, cols_, to, cols_, held_.as<MKL_BF16>());
  }

  void run(const float* x, const After& after, float* y) override {
    static_assert(std::is_same_v<MKL_BF16, unsigned short>);
    for (MKL_INT i = 0; i < cols_; ++i) x_[i] = to_bf16(x[i]);
    const float keep = after.add ? 1 : 0;
    const auto* w = held_.as<const MKL_BF16>();
    if (!packed_) {
      cblas_gemm_bf16bf16f32(CblasColMajor, as_ == CblasAMatrix ? CblasTrans : CblasNoTrans,
                             CblasNoTrans, m_, n_, cols_, 1, as_ == CblasAMatrix ? w : x_.data(),
                             as_ == CblasAMatrix ? cols_ : 1, as_ == CblasAMatrix ? x_.data() : w,
                             cols_, keep, y, m_);
    } else if (as_ == CblasAMatrix) {
      cblas_gemm_bf16bf16f32_compute(CblasColMajor, CblasPacked, CblasNoTrans, m_, n_, cols_, 1, w,
                                     rows_, x_.data(), cols_, keep, y, rows_);
    } else {
      cblas_gemm_bf16bf16f32_compute(CblasColMajor, CblasNoTrans, CblasPacked, m_, n_, cols_, 1,
                                     x_.data(), 1, w, cols_, keep, y, 1);
    }
    finish(after, rows_, y);
  }

 private:
  MKL_INT rows_, cols_, m_, n_;
  CBLAS_IDENTIFIER as_;
  bool packed_;
  Memory held_;
  std::vector<MKL_BF16> x_;
};

}  // namespace

std::string version() {
  MKLVersion v;
  mkl_get_version(&v);
  return "MKL " + std::to_string(v.MajorVersion) + "." + std::to_string(v.MinorVersion) + "." +
         std::to_string(v.UpdateVersion);
}

std::string ways(const std::string& type) {
  if (type == "f32") return "gemv,gemv_in_out,packed_left,packed_right";
  if (type == "bf16") return "gemm_left,gemm_right,packed_left,packed_right";
  return "";
}

std::unique_ptr<Peer> make(const Sizes& sizes, const std::string& type, const std::string& way,
                           int threads) {
  mkl_set_dynamic(0);
  mkl_set_num_threads(threads);
  const CBLAS_IDENTIFIER as = way.ends_with("_left") ? CblasAMatrix : CblasBMatrix;
  const bool half = type == "bf16", packed = way.starts_with("packed");
  return dense_peer(sizes, [=](const Array& w) -> std::unique_ptr<Product> {
    if (half) return std::make_unique<Bf16>(w, as, packed);
    if (packed) return std::make_unique<Packed>(w, as);
    return std::make_unique<Gemv>(w, way == "gemv_in_out");
  });
}

}  // namespace peers
