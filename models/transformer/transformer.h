// The encoder-decoder or decoder-only Transformer of paper 7.1 and the Terraformer of 5.2;
// dense baseline, Scaling Transformer and Terraformer differ by layers and residual stack only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/arena.h"
#include "models/batch.h"
#include "models/layer.h"
#include "models/layers/catalog.h"
#include "models/transformer/stack.h"

namespace scaling {

/// Positions that attention may look at: those whose id is not 0, or all if every id is 0.
std::vector<std::int64_t> unpadded(const std::vector<int>& ids);

class Transformer {
 public:
  /// Shapes only; no memory is taken. Validates the config. blocks = 0 is resolved here against
  /// `memory` bytes (default: what is available), keeping at
  /// least one block, or one of each of the attentions that blocks take in turn.
  explicit Transformer(ModelConfig config, std::uint64_t memory = 0);

  const ModelConfig& config() const { return config_; }
  /// Distinct decoder blocks held; fewer than config().decoder_layers means scaled down.
  std::int64_t blocks() const { return std::int64_t(decoder_.blocks.size()); }

  /// Every parameter that is held, names prefixed ("decoder.0.feed_forward.w1").
  void visit_parameters(const ParameterVisitor& visit);
  /// Parameters of the full model: all encoder and decoder layers, held or not.
  std::int64_t parameter_count() const;
  /// Bytes of the parameters held, in config().weight_type.
  std::uint64_t held_bytes() const;

  /// Takes memory (refused before it is taken if it does not fit, with the flags that shrink it),
  /// lets the team's threads touch it first, and draws the initial values.
  /// `dense`: the layout of weights that only dense products read, KernelSet::dense_layout() of
  /// the set that is to decode.
  void allocate(Team& team, Layout dense = Layout::rows);
  /// As allocate(), for training: f32, every parameter in Layout::rows, zeroed gradients beside
  /// those that are not frozen. Such a model evaluates and trains but does not decode (kernels want
  /// their layouts): load its checkpoint into one that was allocate()d. Throws UserError if the
  /// config has bf16 weights, an encoder that is only drawn, or fewer blocks in memory than layers.
  void allocate_for_training(Team& team);
  bool is_for_training() const { return gradients_.data() != nullptr; }
  std::vector<Parameter*> parameters();
  void zero_gradients();
  const Arena& arena() const { return arena_; }

  /// Encoder output (positions, config().encoded_width()) after the final norm, of joined streams
  /// both without one. Ids are in [0, vocab_size); 0 is padding, masked as keys. If
  /// config().encoder is false: unit normal draws from the seed. No rows if decoder-only.
  Mat encode(const std::vector<int>& source) const;
  /// Teacher-forced logits (positions, vocab_size) of the decoder for `target` shifted right by one
  /// zero.
  Mat forward(const std::vector<int>& source, const std::vector<int>& target) const;

  /// What a pass keeps for its backward half; reused from batch to batch.
  struct Kept {
    Stack::Kept encoder, decoder;
    std::vector<int> source;         ///< what the encoder reads
    std::vector<std::uint8_t> seen;  ///< of source: 0 where it is padding
    std::uint64_t streams = 0;       ///< Pass::streams behind the encoder
    Concatenation joined;            ///< of both stacks, for concatenated models
    Mat drawn;                       ///< encoder output of a model with encoder = false
    /// Of training by several streams: what the decoder reads, and a stream's share of its loss.
    struct Future {
      std::vector<int> input, targets;
      std::vector<float> weights;
      Mat x, dx;
    } future;
    std::unique_ptr<Activations> loss;
  };
  /// stored: see Stack::make_activations.
  std::unique_ptr<Kept> make_activations(bool stored = false) const;
  /// Loss of a batch, averaged over nothing: sums. Sets pass.examples and pass.ids. Unless
  /// pass.training, nothing is drawn and selections are hard. Throws UserError if a sequence
  /// exceeds max_length.
  CrossEntropy loss_of(Pass& pass, const Batch& batch, Kept& kept) const;
  /// Of the same pass the logits (positions, vocab_size), of all examples one after another.
  void logits_of(Pass& pass, const Batch& batch, Kept& kept, Mat& logits) const;
  /// Of every example of a batch in evaluation, likewise. is_encoded: the sources are those of the
  /// batch that `kept` saw last, so that what the encoder made of them is taken as it stands there.
  std::vector<double> losses_by_example(Pass& pass, const Batch& batch, Kept& kept,
                                        bool is_encoded) const;
  /// As loss_of, in training, and the backward pass: sets pass.extra_loss to what layers add to the
  /// loss, and adds the gradients of scale * (loss + future_loss + pass.extra_loss) to the
  /// parameters'.
  CrossEntropy loss_and_gradients(Pass& pass, const Batch& batch, float scale, Kept& kept) const;
  /// Stack::first_not_finite of an evaluation of the batch.
  std::string first_not_finite(const Gemm& gemm, const Batch& batch) const;
  /// Evaluates the batch and shows what the decoder's self-attentions took and gave, one after
  /// another; in kept, which is a stored one, until its next pass.
  std::vector<AttentionView> self_attentions(const Gemm& gemm, const Batch& batch,
                                             Kept& kept) const;
  /// Floating-point operations of the matrix products of loss_and_gradients in the held blocks, for
  /// one batch of these sizes (backward: twice the forward). Of causal attention, the encoder's
  /// never and the decoder's as Batch::causal says, only the pairs that the mask lets through
  /// count.
  double training_flops(std::int64_t examples, std::int64_t source_length,
                        std::int64_t target_length, bool causal = true) const;
  /// About what loss_and_gradients holds for one batch beside weights and gradients:
  /// activations of every branch, or in a stack that computes them again of those of one block (of
  /// as many as have different attentions), and what all share.
  double activation_bytes(std::int64_t examples, std::int64_t source_length,
                          std::int64_t target_length) const;

  /// Sizes of a decode, or of its step at `length` positions of the decoder's own (the current one
  /// included). source_length: ignored if decoder-only.
  DecodeSizes decode_sizes(int tokens, std::int64_t length, std::int64_t source_length) const;
  /// Caches of the held blocks.
  std::uint64_t state_bytes(const DecodeSizes& sizes) const;
  /// One decoder block's step, mean over those held; each part's phases, and all one after another.
  PerPart<Cost> block_cost_by_part(int tokens, std::int64_t length,
                                   std::int64_t source_length) const;
  Cost block_cost(int tokens, std::int64_t length, std::int64_t source_length) const;
  /// The whole token of the full model: decoder_layers blocks + embedding, final norm, loss.
  Cost token_cost(int tokens, std::int64_t length, std::int64_t source_length) const;
  /// What one token through the held blocks reads.
  Cost held_token_cost(int tokens, std::int64_t length, std::int64_t source_length) const;

  const Stack& decoder() const { return decoder_; }
  const Loss& loss() const { return *loss_; }
  const Parameter& embedding() const { return embedding_; }

 private:
  CrossEntropy loss_of(Pass& pass, const Batch& batch, float scale, Kept& kept, Mat* dnormed) const;
  /// Of a training pass by several streams: the first's, and the others' in future_loss.
  CrossEntropy loss_of_streams(Pass& pass, const Batch& batch, float scale, Kept& kept,
                               Mat* dnormed) const;
  /// That a pass has in its decoder: 1 unless it trains.
  std::int64_t streams_of(const Pass& pass) const {
    return pass.training ? config_.future_tokens : 1;
  }
  void encode_batch(Pass& pass, Kept& kept) const;
  /// Up to kept.decoder.normed, what the loss layer reads. is_encoded: see losses_by_example.
  void run(Pass& pass, const Batch& batch, Kept& kept, bool is_encoded = false) const;
  BlockInputs encoder_inputs(const Kept& kept) const;
  BlockInputs decoder_inputs(const Kept& kept, bool causal, std::int64_t streams) const;
  TrainSizes encoder_sizes(std::int64_t source_length) const;
  TrainSizes decoder_sizes(std::int64_t source_length, std::int64_t target_length,
                           bool causal) const;

  ModelConfig config_;
  Arena arena_, gradients_;
  Parameter embedding_;
  Stack encoder_, decoder_;
  std::unique_ptr<Loss> loss_;
};

}  // namespace scaling
