// All of a chunk is matrix products: among its own positions by a square of weights, with those
// before by their sum. Backward goes forward once for queries, whose gradients need the sum of
// earlier keys, and then back for keys, whose gradients need the sum over later queries; features
// are made again each time.
#include "models/layers/attention/performer_head.h"

#include <algorithm>
#include <cmath>

namespace scaling {
namespace {

/// How far maxima may rise within a chunk: e^40 times what is e^-40 of the largest still is exact.
constexpr float kMostRise = 40;

float input_scale(std::int64_t d) { return 1 / std::sqrt(std::sqrt(float(d))); }

/// Zero above the diagonal of the first n rows and columns.
void clear_later(Mat& scores, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) scores.row(i).segment(i + 1, n - i - 1).setZero();
}

const float* row_of(const RowsOfHead& all, std::int64_t row) {
  return all.data() + row * all.outerStride();
}

float* row_of(WritableRowsOfHead& all, std::int64_t row) {
  return all.data() + row * all.outerStride();
}

}  // namespace

PerformerHead::Rows PerformerHead::rows_from(const PerformerCall& call, std::int64_t first) {
  return {first, std::min(PerformerCall::kChunk, call.length - first)};
}

PerformerHead::Rows PerformerHead::causal_chunk(const PerformerCall& call, std::size_t chunk) {
  const std::int64_t first = chunk == 0 ? 0 : call.shifts.ends[chunk - 1];
  return {first, call.shifts.ends[chunk] - first};
}

void PerformerHead::size(const PerformerCall& call, bool for_backward) {
  const std::int64_t n = std::min(PerformerCall::kChunk, call.length);
  for (Mat* m : {&queries_, &keys_}) m->resize(n, call.features);
  for (Mat* m : {&values_, &mixed_}) m->resize(n, call.d + 1);
  scores_.resize(n, n);
  sums_.resize(call.features, call.d + 1);
  maxima_.setConstant(call.features, kNoExponent);
  before_ = floor_ = raised_ = maxima_;
  if (!for_backward) return;
  dfeatures_.resize(n, call.features);
  gradient_.resize(n, call.d + 1);
  dsums_.resize(call.features, call.d + 1);
}

/// w . x of rows of x that are scaled here.
void PerformerHead::project(const PerformerCall& call, const RowsOfHead& x, Rows rows,
                            Mat& exponents) {
  call.pass.gemm.product(false, true, rows.size, call.features, call.d, row_of(x, rows.first),
                         x.outerStride(), call.directions, call.d, 0, exponents.data(),
                         call.features);
  exponents.topRows(rows.size) *= input_scale(call.d);
}

void PerformerHead::load_keys(const PerformerCall& call, const RowsOfHead& k, Rows rows) {
  project(call, k, rows, keys_);
  const float scale = input_scale(call.d), half = scale * scale / 2;
  for (std::int64_t i = 0; i < rows.size; ++i) {
    keys_.row(i).array() -= half * k.row(rows.first + i).squaredNorm();
  }
}

void PerformerHead::load_values(const RowsOfHead& v, Rows rows) {
  const std::int64_t d = v.cols();
  values_.topLeftCorner(rows.size, d) = v.middleRows(rows.first, rows.size);
  values_.col(d).setOnes();
}

/// Of numerators and, in the last column, of sums of weights.
void PerformerHead::load_gradient(const PerformerCall& call, const Inputs& in, Rows rows) {
  for (std::int64_t i = 0; i < rows.size; ++i) {
    const std::int64_t row = rows.first + i;
    const float inverse = call.inverses[row];
    gradient_.row(i).head(call.d) = inverse * in.dout.row(row);
    gradient_(i, call.d) = -inverse * in.o.row(row).dot(in.dout.row(row));
  }
}

/// By keys whose exponents are loaded.
void PerformerHead::raise_maxima(const PerformerCall& call, Rows rows) {
  for (std::int64_t i = 0; i < rows.size; ++i) {
    if (call.sees(rows.first + i)) maxima_ = maxima_.cwiseMax(keys_.row(i));
  }
}

/// The same under a causal mask, with the largest of queries whose exponents are loaded too, as far
/// as the chunk may go: returns its size.
std::int64_t PerformerHead::raise_maxima_one_by_one(const PerformerCall& call, Rows rows) {
  bool has_floor = false;
  for (std::int64_t i = 0; i < rows.size; ++i) {
    if (call.sees(rows.first + i)) {
      raised_ = maxima_.cwiseMax(keys_.row(i));
      if (has_floor && (raised_ - floor_).maxCoeff() > kMostRise) return i;
      maxima_.swap(raised_);
    }
    if (!has_floor && maxima_(0) > kNoExponent / 2) {
      has_floor = true;
      floor_ = maxima_;
    }
    call.largest[rows.first + i] = (queries_.row(i) + maxima_).maxCoeff();
  }
  return rows.size;
}

void PerformerHead::take_maxima(const PerformerCall& call, std::size_t chunk) {
  maxima_ = Eigen::Map<const Eigen::RowVectorXf>(
      call.shifts.maxima.data() + std::int64_t(chunk) * call.features, call.features);
}

/// sums_, of features divided by exp(before_), to features divided by exp(maxima_).
void PerformerHead::scale_sums() {
  for (std::int64_t f = 0; f < sums_.rows(); ++f) {
    sums_.row(f) *= std::exp(before_(f) - maxima_(f));
  }
}

/// dsums_, of queries' features multiplied with exp(before_), to those multiplied with
/// exp(maxima_), which is no larger.
void PerformerHead::scale_dsums() {
  for (std::int64_t f = 0; f < dsums_.rows(); ++f) {
    dsums_.row(f) *= std::exp(maxima_(f) - before_(f));
  }
}

void PerformerHead::keys_to_features(const PerformerCall& call, Rows rows) {
  for (std::int64_t i = 0; i < rows.size; ++i) {
    if (call.sees(rows.first + i)) {
      keys_.row(i) = (keys_.row(i) - maxima_).array().exp().matrix();
    } else {
      keys_.row(i).setZero();
    }
  }
}

void PerformerHead::queries_to_features(const PerformerCall& call, Rows rows) {
  for (std::int64_t i = 0; i < rows.size; ++i) {
    const float largest = call.largest[rows.first + i];
    if (largest > kNoExponent / 2) {
      queries_.row(i) = ((queries_.row(i) + maxima_).array() - largest).exp().matrix();
    } else {
      queries_.row(i).setZero();
    }
  }
}

void PerformerHead::make_features(const PerformerCall& call, const Inputs& in, Rows rows) {
  project(call, in.q, rows, queries_);
  queries_to_features(call, rows);
  load_keys(call, in.k, rows);
  keys_to_features(call, rows);
}

/// scores_ = a b^T, of rows and keys up to them.
void PerformerHead::multiply_earlier(const PerformerCall& call, Rows rows, const Mat& a,
                                     const Mat& b) {
  call.pass.gemm.product(false, true, rows.size, rows.size, a.cols(), a.data(), a.cols(), b.data(),
                         b.cols(), 0, scores_.data(), scores_.cols());
  clear_later(scores_, rows.size);
}

/// o from mixed_.
void PerformerHead::finish(const PerformerCall& call, Rows rows, WritableRowsOfHead& o) {
  for (std::int64_t i = 0; i < rows.size; ++i) {
    const float sum = mixed_(i, call.d);
    const float inverse = sum > 0 ? 1 / sum : 0.0f;
    call.inverses[rows.first + i] = inverse;
    o.row(rows.first + i) = inverse * mixed_.row(i).head(call.d);
  }
}

/// sums_ += keys^T values.
void PerformerHead::add_keys(const PerformerCall& call, Rows rows) {
  call.pass.gemm.product(true, false, call.features, call.d + 1, rows.size, keys_.data(),
                         call.features, values_.data(), call.d + 1, 1, sums_.data(), call.d + 1);
}

/// sums += queries^T gradients.
void PerformerHead::add_gradients(const PerformerCall& call, Rows rows, Mat& sums) {
  call.pass.gemm.product(true, false, call.features, call.d + 1, rows.size, queries_.data(),
                         call.features, gradient_.data(), call.d + 1, 1, sums.data(), call.d + 1);
}

/// From the gradient of queries' features, in dfeatures_.
void PerformerHead::dquery(const PerformerCall& call, Rows rows, WritableRowsOfHead& dq) {
  dfeatures_.topRows(rows.size).array() *= queries_.topRows(rows.size).array();
  call.pass.gemm.product(false, false, rows.size, call.d, call.features, dfeatures_.data(),
                         call.features, call.directions, call.d, 0, row_of(dq, rows.first),
                         dq.outerStride());
  dq.middleRows(rows.first, rows.size) *= input_scale(call.d);
}

/// From that of keys' features.
void PerformerHead::dkey(const PerformerCall& call, Rows rows, const RowsOfHead& k,
                         WritableRowsOfHead& dk) {
  dfeatures_.topRows(rows.size).array() *= keys_.topRows(rows.size).array();
  call.pass.gemm.product(false, false, rows.size, call.d, call.features, dfeatures_.data(),
                         call.features, call.directions, call.d, 0, row_of(dk, rows.first),
                         dk.outerStride());
  const float scale = input_scale(call.d);
  for (std::int64_t i = 0; i < rows.size; ++i) {
    const std::int64_t row = rows.first + i;
    dk.row(row) = scale * dk.row(row) - scale * scale * dfeatures_.row(i).sum() * k.row(row);
  }
}

void PerformerHead::forward(const PerformerCall& call, const RowsOfHead& q, const RowsOfHead& k,
                            const RowsOfHead& v, WritableRowsOfHead o) {
  size(call, /*for_backward=*/false);
  sums_.setZero();
  call.shifts.ends.clear();
  call.shifts.maxima.clear();
  if (call.causal) {
    forward_causal(call, q, k, v, o);
  } else {
    forward_two_sided(call, q, k, v, o);
  }
}

void PerformerHead::forward_causal(const PerformerCall& call, const RowsOfHead& q,
                                   const RowsOfHead& k, const RowsOfHead& v,
                                   WritableRowsOfHead& o) {
  const GemmFunction product = call.pass.gemm.product;
  const std::int64_t m = call.features, width = call.d + 1;
  for (std::int64_t first = 0; first < call.length;) {
    Rows rows = rows_from(call, first);
    project(call, q, rows, queries_);
    load_keys(call, k, rows);
    before_ = maxima_;
    rows.size = raise_maxima_one_by_one(call, rows);
    const std::int64_t end = first + rows.size;
    call.shifts.ends.push_back(end);
    call.shifts.maxima.insert(call.shifts.maxima.end(), maxima_.begin(), maxima_.end());
    load_values(v, rows);
    queries_to_features(call, rows);
    keys_to_features(call, rows);
    multiply_earlier(call, rows, queries_, keys_);
    product(false, false, rows.size, width, rows.size, scores_.data(), scores_.cols(),
            values_.data(), width, 0, mixed_.data(), width);
    if (first > 0) {
      scale_sums();
      product(false, false, rows.size, width, m, queries_.data(), m, sums_.data(), width, 1,
              mixed_.data(), width);
    }
    finish(call, rows, o);
    if (end < call.length) add_keys(call, rows);
    first = end;
  }
}

void PerformerHead::forward_two_sided(const PerformerCall& call, const RowsOfHead& q,
                                      const RowsOfHead& k, const RowsOfHead& v,
                                      WritableRowsOfHead& o) {
  const std::int64_t m = call.features, width = call.d + 1;
  for (std::int64_t first = 0; first < call.length; first += PerformerCall::kChunk) {
    const Rows rows = rows_from(call, first);
    load_keys(call, k, rows);
    load_values(v, rows);
    before_ = maxima_;
    raise_maxima(call, rows);
    scale_sums();
    keys_to_features(call, rows);
    add_keys(call, rows);
  }
  call.shifts.maxima.assign(maxima_.begin(), maxima_.end());
  for (std::int64_t first = 0; first < call.length; first += PerformerCall::kChunk) {
    const Rows rows = rows_from(call, first);
    project(call, q, rows, queries_);
    for (std::int64_t i = 0; i < rows.size; ++i) {
      call.largest[rows.first + i] = (queries_.row(i) + maxima_).maxCoeff();
    }
    queries_to_features(call, rows);
    call.pass.gemm.product(false, false, rows.size, width, m, queries_.data(), m, sums_.data(),
                           width, 0, mixed_.data(), width);
    finish(call, rows, o);
  }
}

void PerformerHead::backward(const PerformerCall& call, const RowsOfHead& q, const RowsOfHead& k,
                             const RowsOfHead& v, const RowsOfHead& o, const RowsOfHead& dout,
                             WritableRowsOfHead dq, WritableRowsOfHead dk, WritableRowsOfHead dv) {
  size(call, /*for_backward=*/true);
  const Inputs in{q, k, v, o, dout};
  if (call.causal) {
    backward_causal(call, in, dq, dk, dv);
  } else {
    backward_two_sided(call, in, dq, dk, dv);
  }
}

void PerformerHead::backward_causal(const PerformerCall& call, const Inputs& in,
                                    WritableRowsOfHead& dq, WritableRowsOfHead& dk,
                                    WritableRowsOfHead& dv) {
  const GemmFunction product = call.pass.gemm.product;
  const std::int64_t m = call.features, d = call.d, width = d + 1;
  sums_.setZero();  // over earlier keys
  const std::size_t chunks = call.shifts.ends.size();
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const Rows rows = causal_chunk(call, chunk);
    before_ = maxima_;
    take_maxima(call, chunk);
    make_features(call, in, rows);
    load_values(in.v, rows);
    load_gradient(call, in, rows);
    multiply_earlier(call, rows, gradient_, values_);
    product(false, false, rows.size, m, rows.size, scores_.data(), scores_.cols(), keys_.data(), m,
            0, dfeatures_.data(), m);
    if (chunk > 0) {
      scale_sums();
      product(false, true, rows.size, m, width, gradient_.data(), width, sums_.data(), width, 1,
              dfeatures_.data(), m);
    }
    dquery(call, rows, dq);
    if (chunk + 1 < chunks) add_keys(call, rows);
  }
  dsums_.setZero();  // over later queries
  for (std::size_t chunk = chunks; chunk-- > 0;) {
    const Rows rows = causal_chunk(call, chunk);
    const bool is_last = chunk + 1 == chunks;
    before_ = maxima_;
    take_maxima(call, chunk);
    if (!is_last) scale_dsums();
    make_features(call, in, rows);
    load_values(in.v, rows);
    load_gradient(call, in, rows);
    multiply_earlier(call, rows, gradient_, values_);
    product(true, false, rows.size, m, rows.size, scores_.data(), scores_.cols(), queries_.data(),
            m, 0, dfeatures_.data(), m);
    multiply_earlier(call, rows, queries_, keys_);
    product(true, false, rows.size, d, rows.size, scores_.data(), scores_.cols(), gradient_.data(),
            width, 0, row_of(dv, rows.first), dv.outerStride());
    if (!is_last) {
      product(false, true, rows.size, m, width, values_.data(), width, dsums_.data(), width, 1,
              dfeatures_.data(), m);
      product(false, false, rows.size, d, m, keys_.data(), m, dsums_.data(), width, 1,
              row_of(dv, rows.first), dv.outerStride());
    }
    dkey(call, rows, in.k, dk);
    if (chunk > 0) add_gradients(call, rows, dsums_);
  }
}

void PerformerHead::backward_two_sided(const PerformerCall& call, const Inputs& in,
                                       WritableRowsOfHead& dq, WritableRowsOfHead& dk,
                                       WritableRowsOfHead& dv) {
  const GemmFunction product = call.pass.gemm.product;
  const std::int64_t m = call.features, d = call.d, width = d + 1;
  take_maxima(call, 0);
  sums_.setZero();  // over keys
  for (std::int64_t first = 0; first < call.length; first += PerformerCall::kChunk) {
    const Rows rows = rows_from(call, first);
    load_keys(call, in.k, rows);
    keys_to_features(call, rows);
    load_values(in.v, rows);
    add_keys(call, rows);
  }
  dsums_.setZero();  // over queries
  for (std::int64_t first = 0; first < call.length; first += PerformerCall::kChunk) {
    const Rows rows = rows_from(call, first);
    project(call, in.q, rows, queries_);
    queries_to_features(call, rows);
    load_gradient(call, in, rows);
    product(false, true, rows.size, m, width, gradient_.data(), width, sums_.data(), width, 0,
            dfeatures_.data(), m);
    add_gradients(call, rows, dsums_);
    dquery(call, rows, dq);
  }
  for (std::int64_t first = 0; first < call.length; first += PerformerCall::kChunk) {
    const Rows rows = rows_from(call, first);
    load_keys(call, in.k, rows);
    keys_to_features(call, rows);
    load_values(in.v, rows);
    product(false, true, rows.size, m, width, values_.data(), width, dsums_.data(), width, 0,
            dfeatures_.data(), m);
    product(false, false, rows.size, d, m, keys_.data(), m, dsums_.data(), width, 0,
            row_of(dv, rows.first), dv.outerStride());
    dkey(call, rows, in.k, dk);
  }
}

}  // namespace scaling
