// Attention as it is defined, one row after another in double precision, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "models/attention.h"
#include "tests/layers/layer_harness.h"

namespace scaling {

using Double = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct AttentionInput {
  Mat q, k, v, dout;
  AttentionInput(std::int64_t queries, std::int64_t keys, std::int64_t d)
      : q(random_mat(queries, d, 1)),
        k(random_mat(keys, d, 2)),
        v(random_mat(keys, d, 3)),
        dout(random_mat(queries, d, 4)) {}
};

struct AttentionResult {
  Mat o, dq, dk, dv;
};

void expect_same(const AttentionResult& ours, const AttentionResult& expected);

/// Forward and backward, `times` over, with the same draws.
template <class Layer>
AttentionResult run_attention(const Layer& layer, Pass pass, const AttentionInput& in,
                              const AttentionMask& mask, int times = 1) {
  const std::unique_ptr<Activations> kept = layer.make_activations();
  AttentionResult r;
  for (int i = 0; i < times; ++i) {
    Pass again = pass;
    layer.forward(again, in.q, in.k, in.v, mask, *kept, r.o);
    layer.backward(again, in.q, in.k, in.v, mask, *kept, in.dout, r.dq, r.dk, r.dv);
  }
  return r;
}

/// That `part`, which has taken a layer's last heads, makes of them to the bit what `whole` does,
/// which has all, forward and backward, and leaves the first `others` columns as they are.
void expect_last_heads(const SelfAttention& part, const SelfAttention& whole, std::int64_t others,
                       const Pass& pass, const AttentionInput& in, const AttentionMask& mask);

/// The loss's slope along every element, by central differences.
Mat slopes_along(Double& elements, const std::function<double()>& loss);
/// That a definition's gradients are the slopes of sum(dout o), o (queries, d) of q, k and v.
void expect_slopes(
    const AttentionResult& defined, const AttentionInput& in,
    const std::function<Double(const Double& q, const Double& k, const Double& v)>& o);

/// alpha-entmax of a row, softmax for an alpha of 1: the threshold by halving its interval.
Eigen::VectorXd normalised(const Eigen::VectorXd& logits, double alpha);

/// Weights (queries, keys) of one head, as define_attention has them.
Double attention_weights(const Double& q, const Double& k, const AttentionMask& mask, double alpha,
                         const std::function<bool(std::int64_t, std::int64_t)>& is_allowed);
/// One example: logits of padding replaced by -1e9 (they learn nothing), pairs that are not allowed
/// and under a causal mask later keys left out.
AttentionResult define_attention(
    const AttentionInput& in, std::int64_t heads, const AttentionMask& mask, double alpha = 1,
    const std::function<bool(std::int64_t, std::int64_t)>& is_allowed = nullptr);

/// One sequence step by step, in one thread.
Mat decode_attention(const SelfAttention& layer, const AttentionInput& in);

}  // namespace scaling
