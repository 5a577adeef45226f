// Forward and backward of attention by tiles of queries and keys, without a matrix of all pairs.
#pragma once

#include <memory>

#include "models/attention.h"

namespace scaling {

/// Memory is linear in length: of the probabilities, backward finds no more than their normalisers.
/// Logits of padding keys are replaced by -1e9, so a query that may see none but padding weighs its
/// keys (under a causal mask those up to its position) equally; keys after the query are left out.
struct TiledAttention {
  std::int64_t heads, d_head;

  std::unique_ptr<Activations> make_activations() const;
  /// As SelfAttention's and CrossAttention's.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const;
  /// The result, and of each head the largest logit and the normaliser.
  double activation_floats() const { return double(heads * (d_head + 2)); }
};

}  // namespace scaling
