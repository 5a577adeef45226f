// FAVOR+ attention of one head of one example, chunk by chunk. One thread's work.
#pragma once

#include <cstdint>
#include <vector>

#include "models/pass.h"

namespace scaling {

/// Rows of one example and columns of one head in a matrix of all.
using RowsOfHead = Eigen::Ref<const Mat, 0, Eigen::OuterStride<>>;
using WritableRowsOfHead = Eigen::Ref<Mat, 0, Eigen::OuterStride<>>;

/// Largest exponent where no key has been met.
inline constexpr float kNoExponent = -1e30f;

/// What keys' features are divided by, in logarithms.
struct PerformerShifts {
  /// Under a causal mask, ends of chunks: the last positions of each, plus one.
  std::vector<std::int64_t> ends;
  /// (chunks, features), or one row if all keys are seen: largest exponents of keys up to the end.
  std::vector<float> maxima;
};

/// What forward and backward of a head must agree on. With x a query or key times d^(-1/4), an
/// exponent is w . x of a query and w . x - |x|^2 / 2 of a key; what features have beside it
/// cancels in the ratio.
struct PerformerCall {
  /// Positions of a chunk, at most.
  static constexpr std::int64_t kChunk = 64;

  const Pass& pass;
  const float* directions;  ///< w (features, d)
  std::int64_t features, length, d;
  bool causal;
  const std::uint8_t* seen;  ///< (length), 0: padding; null: there is none
  // Forward fills these, backward reads them.
  float* largest;   ///< (length): of a query, its exponent plus maxima it sees, the largest of all
  float* inverses;  ///< (length): of a query, one over its sum of weights; 0 if it sees no key
  PerformerShifts& shifts;

  bool sees(std::int64_t key) const { return seen == nullptr || seen[key] != 0; }
};

/// Numerator and sum of weights are one product: values have a column of ones behind them. Between
/// chunks goes a sum over keys, (features, d + 1), so that memory is of chunks and that sum.
///
/// Features are exp(exponent - largest), with a largest of each feature over the keys so far and
/// one of each query over what it sees: these cancel in the ratio, so no weight overflows and the
/// sum of weights of a query that sees a key is at least 1. Nothing is added to features that does
/// not cancel, so what comes later changes no earlier result but by rounding. A chunk ends early
/// where exponents rise so far that what its first query sees would vanish.
class PerformerHead {
 public:
  /// o from q, k, v: (length, d) each.
  void forward(const PerformerCall& call, const RowsOfHead& q, const RowsOfHead& k,
               const RowsOfHead& v, WritableRowsOfHead o);
  /// Gradients from what forward has left in the call, its o and that one's gradient.
  void backward(const PerformerCall& call, const RowsOfHead& q, const RowsOfHead& k,
                const RowsOfHead& v, const RowsOfHead& o, const RowsOfHead& dout,
                WritableRowsOfHead dq, WritableRowsOfHead dk, WritableRowsOfHead dv);

 private:
  /// Inputs of a backward.
  struct Inputs {
    const RowsOfHead &q, &k, &v, &o, &dout;
  };
  /// Some positions.
  struct Rows {
    std::int64_t first, size;
  };

  static Rows rows_from(const PerformerCall& call, std::int64_t first);
  static Rows causal_chunk(const PerformerCall& call, std::size_t chunk);
  void size(const PerformerCall& call, bool for_backward);
  void project(const PerformerCall& call, const RowsOfHead& x, Rows rows, Mat& exponents);
  void load_keys(const PerformerCall& call, const RowsOfHead& k, Rows rows);
  void load_values(const RowsOfHead& v, Rows rows);
  void load_gradient(const PerformerCall& call, const Inputs& in, Rows rows);
  void raise_maxima(const PerformerCall& call, Rows rows);
  std::int64_t raise_maxima_one_by_one(const PerformerCall& call, Rows rows);
  void take_maxima(const PerformerCall& call, std::size_t chunk);
  void scale_sums();
  void scale_dsums();
  void keys_to_features(const PerformerCall& call, Rows rows);
  void queries_to_features(const PerformerCall& call, Rows rows);
  void make_features(const PerformerCall& call, const Inputs& in, Rows rows);
  void multiply_earlier(const PerformerCall& call, Rows rows, const Mat& a, const Mat& b);
  void finish(const PerformerCall& call, Rows rows, WritableRowsOfHead& o);
  void add_keys(const PerformerCall& call, Rows rows);
  void add_gradients(const PerformerCall& call, Rows rows, Mat& sums);
  void dquery(const PerformerCall& call, Rows rows, WritableRowsOfHead& dq);
  void dkey(const PerformerCall& call, Rows rows, const RowsOfHead& k, WritableRowsOfHead& dk);

  void forward_causal(const PerformerCall& call, const RowsOfHead& q, const RowsOfHead& k,
                      const RowsOfHead& v, WritableRowsOfHead& o);
  void forward_two_sided(const PerformerCall& call, const RowsOfHead& q, const RowsOfHead& k,
                         const RowsOfHead& v, WritableRowsOfHead& o);
  void backward_causal(const PerformerCall& call, const Inputs& in, WritableRowsOfHead& dq,
                       WritableRowsOfHead& dk, WritableRowsOfHead& dv);
  void backward_two_sided(const PerformerCall& call, const Inputs& in, WritableRowsOfHead& dq,
                          WritableRowsOfHead& dk, WritableRowsOfHead& dv);

  // Of the chunk at hand.
  Mat queries_, keys_, dfeatures_;      // (chunk, features): exponents, then features
  Mat values_, mixed_, gradient_;       // (chunk, d + 1)
  Mat scores_;                          // (chunk, chunk): zero where the key is later
  Mat sums_, dsums_;                    // (features, d + 1): over keys, and over queries
  Eigen::RowVectorXf maxima_, before_;  // (features): at hand, and those before
  Eigen::RowVectorXf floor_, raised_;   // (features): of the chunk's first query, and the next
};

}  // namespace scaling
