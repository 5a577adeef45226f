// Embedding, blocks and final norm of an encoder or a decoder, and how residuals add up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layers/parts/dense_product.h"
#include "models/transformer/block.h"
#include "models/transformer/concatenation.h"
#include "models/transformer/embedding.h"
#include "models/transformer/positions.h"

namespace scaling {

/// Residual stacks (ModelConfig::residual_stack). plain: x += f(x) for every branch f. Reversible:
/// two streams, both the input at first; acc += f(ctx), then the two change places; their mean is
/// the result (paper 5.1). The backward pass of `reversible` subtracts f(ctx) again
/// instead of remembering acc: nothing of the size of a stream is kept of a branch, only its
/// Decisions. `reversible_stored` is the same function, remembering. An encoder whose streams both
/// go to the decoder (ModelConfig::joins_streams) ends without mean, dense layer and norm; in the
/// decoder each then stands before the same rows in a stream of its own.
struct Stack {
  /// Without blocks yet: `blocks` of them are added by add_block. Names begin with the kind's
  /// ("encoder_positions", "encoder.0.", "encoder_norm."; "encoder_output." of the dense layer
  /// between the mean and the norm of an encoder whose output is concatenated; "decoder_streams").
  using Kind = StackKind;
  Stack(const ModelConfig& config, Kind kind);
  void add_block(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit);

  /// What a pass keeps of this stack; the same object serves batch after batch.
  struct Kept {
    EmbeddingKept embedding;
    Mat embedded;
    /// One for every branch of every block; of a reversible stack that stores nothing, one for
    /// every branch of the first in_turn() blocks, which all blocks use in turn.
    std::vector<std::unique_ptr<BranchActivations>> branches;
    /// In such a stack, those of every branch of every block.
    std::vector<std::vector<Decisions>> decisions;
    std::vector<const Mat*> inputs;  ///< of every branch, where they are kept
    /// The streams of a stack that stores nothing. After a backward pass they are what the inverse
    /// made of the input.
    Mat acc, ctx;
    Mat dacc, dctx;
    BranchScratch scratch;
    std::vector<int> ids;     ///< of the joint sequence
    Mat joint, second_joint;  ///< what the streams begin with; the second only of joined streams
    Mat mean, stripped, output;
    DenseProduct::Kept dense;
    const Mat* last = nullptr;         ///< the blocks' result, stripped
    const Mat* before_norm = nullptr;  ///< what the final norm saw
    Norm::Kept norm;
    /// The result of forward. Of an encoder whose streams are joined: both, side by side, not
    /// normed.
    Mat normed;
    Mat dnormed;  ///< what backward starts from; whoever read `normed` fills it
    Mat dx, dlast;

    /// Bytes of Decisions::chosen that are stored away.
    std::size_t decision_bytes() const;
    /// max |acc - x|, |ctx - x| after a backward pass, x being a stream's input; NaN if the stack
    /// has no inverse to compute.
    double reconstruction_error() const;
  };
  /// stored: activations are kept even if the stack could do without, for whoever wants to see
  /// every block's.
  Kept make_activations(bool stored = false) const;

  /// ids: pass.examples sequences of one length; they become pass.ids. `embedding` is shared by the
  /// stacks of a model. inputs.joined, if not null, puts inputs.encoded before them. The result is
  /// kept.normed.
  void forward(Pass& pass, const Parameter& embedding, const BlockInputs& inputs,
               const std::vector<int>& ids, Kept& kept) const;
  /// From kept.dnormed down to the tables. dencoded: see Branch::backward.
  void backward(Pass& pass, const Parameter& embedding, const BlockInputs& inputs,
                const std::vector<int>& ids, Kept& kept, Mat* dencoded) const;
  /// "decoder.1, feed-forward": the first branch whose result in the last forward is not finite;
  /// empty if there is none. kept must be a stored one.
  std::string first_not_finite(const Kept& kept) const;
  /// Branch::attention_of every self-attention, from the first block on; kept must be a stored one.
  std::vector<AttentionView> self_attentions(const Kept& kept) const;
  /// FeedForward::selection_entropy of every block; kept must be a stored one.
  std::vector<double> selection_entropies(const Kept& kept) const;

  /// Whether the streams change places after branch j of `branches` in a block.
  bool swaps(std::size_t j, std::size_t branches) const;
  bool is_reversible() const { return is_reversible_; }
  /// Of an encoder whose streams are joined.
  bool ends_in_streams() const { return kind == Kind::encoder && joins_streams_; }
  /// Whether it remembers what backward needs of every block, in place of computing it again.
  bool stores() const { return stores_; }
  /// After how many blocks their attentions come round again: others are alike.
  std::size_t in_turn() const { return in_turn_; }

  Kind kind;
  PositionVectors positions;
  /// (future_tokens - 1, d) of a decoder that predicts several tokens: what the streams behind the
  /// first begin with beside their positions; else empty.
  Parameter streams;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<DenseProduct> output;  ///< may be null
  Norm norm;

 private:
  /// Adds to every row of a stream behind the first what it begins with; backward of that.
  void add_streams(const Pass& pass, std::int64_t count, Mat& x) const;
  void add_streams_backward(const Pass& pass, std::int64_t count, const Mat& dx) const;
  /// From what the streams begin with, in a plain stack one and the same, to end().
  void run(Pass& pass, const BlockInputs& inputs, const Mat& acc, const Mat& ctx, Kept& kept) const;
  void run_stored(Pass& pass, const BlockInputs& inputs, const Mat& acc, const Mat& ctx,
                  Kept& kept) const;
  void run_in_place(Pass& pass, const BlockInputs& inputs, const Mat& acc, const Mat& ctx,
                    Kept& kept) const;
  /// To kept.last, or of joined streams of an encoder to kept.normed.
  void end(const Mat& acc, const Mat& ctx, Kept& kept) const;
  /// dx enters as the gradient of kept.last and leaves as that of run's input; of two streams
  /// dacc and dctx have each its own.
  void run_back(Pass& pass, const BlockInputs& inputs, Kept& kept, Mat& dx, Mat* dencoded) const;
  void back_in_place(Pass& pass, const BlockInputs& inputs, Kept& kept, Mat* dencoded) const;
  /// Of such a stack: what block i's branch j keeps.
  BranchActivations& shared(const Kept& kept, std::size_t i, std::size_t j) const;
  bool is_reversible_, stores_, reselects_;
  bool joins_streams_;  ///< the decoder begins with both streams of the encoder
  std::size_t in_turn_;
  std::int64_t encoder_swaps_;
};

}  // namespace scaling
