// Forward and backward of attention by tiles of queries and keys, without a matrix of all pairs.
#pragma once

#include <functional>
#include <memory>

#include "models/attention.h"
#include "models/layers/attention/head_pairs.h"
#include "models/layers/attention/normaliser.h"
#include "models/layers/attention/pattern.h"

namespace scaling {

/// Memory is linear in length: of a row of probabilities, backward finds no more than its largest
/// logit and its sum or threshold. Two small things are not: the list of tiles, 48 bytes for every
/// 128 queries and 384 keys, and with a normaliser, of patterns that visit queries in an order of
/// their own, the candidates of all rows, at worst a number a pair.
/// Logits of padding keys are replaced by -1e9, so a query that may see none but padding weighs its
/// keys (of the pattern, under a causal mask up to its position) equally; what the pattern leaves
/// out is left out. A query that may see no key at all gets zeros.
struct TiledAttention {
  std::int64_t heads, d_head;
  std::unique_ptr<Pattern> pattern;
  std::unique_ptr<ThresholdNormaliser> normaliser;  ///< null: softmax
  /// Where queries and keys say who meets whom: makes what chooses, one a thread, in place of the
  /// pattern. Null: the pattern says it.
  std::function<std::unique_ptr<HeadPairs>()> make_pairs = nullptr;
  /// Where several share a layer's heads: that of the layer which is the first here, and how many
  /// the layer has (0: no more than here).
  std::int64_t first = 0, of = 0;
  std::int64_t all_heads() const { return of > 0 ? of : heads; }

  std::unique_ptr<Activations> make_activations() const;
  /// As SelfAttention's and CrossAttention's; what is written is none of what is read. Columns of
  /// other heads are neither read nor written.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const;
  /// Of the last forward, where they were chosen or given.
  double pairs_met(const Activations& kept) const;
  /// The result, and of each head the two numbers of a row.
  double activation_floats() const { return double(heads * (d_head + 2)); }
  /// A head's rows and their gradients, keys and values in panels, those of a tile whose keys are
  /// no neighbours too, two tiles, and copies of a tile's rows, where there are any.
  double thread_floats(std::int64_t queries, std::int64_t keys) const;

 private:
  bool takes_rows_apart(std::int64_t queries, std::int64_t keys) const;
};

}  // namespace scaling
