// Attention between paragraphs, each a pooled vector by head: the global layers of a hierarchical
// Transformer (Liu and Lapata 2019, Hierarchical Transformers for Multi-Document Summarization).
#pragma once

#include <memory>

#include "models/attention.h"
#include "models/layers/attention/patterns/paragraph.h"
#include "models/layers/attention/tiles.h"
#include "models/layers/traits.h"

namespace scaling {

/// Paragraphs are runs of paragraph_length positions, the last maybe shorter. A head's query, key
/// and value of a paragraph are the means of its positions', weighted by a softmax over pool . k,
/// where pool (heads, d_head) is a parameter and k a position's key. As projections are linear,
/// that is the paper's multi-head pooling, but for the layer that the paper has behind it. Then
/// dot-product attention between paragraphs, whose probabilities are dropped in training, and every
/// position gets what its paragraph gets.
///
/// Padding is in no mean. A paragraph of padding alone is seen by none and gets zeros. Without a
/// causal mask only, since a mean holds later positions too; so for encoders.
class InterParagraphAttention : public SelfAttention {
 public:
  using Options = ParagraphKnobs;
  static constexpr Traits kTraits{.step = StepIs::none, .has_graph = false};
  /// Throws UserError if the length is not positive.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit InterParagraphAttention(const ModelConfig& config);

  void visit_parameters(const ParameterVisitor& visit) override { visit(pool_); }
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  /// Throws UserError if the mask is causal.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  /// Throws UserError: there is no decode.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int, std::int64_t) const override { return 0; }
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Nothing: there is no step.
  Cost step_cost(int, std::int64_t) const override { return {}; }
  /// No pairs of positions: scores of all, three means, and two products of any two paragraphs.
  AttentionWork work(std::int64_t length, bool causal) const override;
  /// A share of each head, and a paragraph's vectors, shared among its positions.
  double activation_floats() const override;
  double thread_floats(std::int64_t length) const override;

 private:
  struct Kept;

  std::int64_t paragraphs(std::int64_t length) const { return (length + length_ - 1) / length_; }
  /// visit(paragraph, its first row, how many) of an example of `length` positions; rows and
  /// paragraphs are counted over all examples.
  template <class Visit>
  void for_each_paragraph(std::int64_t example, std::int64_t length, const Visit& visit) const;

  std::int64_t length_;
  TiledAttention tiles_;
  Parameter pool_;
};

}  // namespace scaling
