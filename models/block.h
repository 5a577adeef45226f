// A block of the plain residual stack: what its seats see, keep and hand back (reference 7.1).
#pragma once

#include <memory>
#include <string>

#include "models/layer.h"
#include "models/norm.h"

namespace scaling {

/// What the blocks of one stack see beside their input.
struct Surroundings {
  const Attention& self_attention;
  const Attention& cross_attention;
  AttentionMask self = {};
  const Mat* encoded = nullptr;  ///< (examples * source length, d), for blocks with cross-attention
  AttentionMask cross = {};
};

/// Buffers that the blocks of one stack use one after another.
struct BlockScratch {
  Mat y, dy, dnormed, do_;
  Projection::QKV dqkv;
  Mat dq, dmemory_input, drecurrent;
  CrossProjection::Memory dmemory;
};

/// x += dropout(self-attention(norm x)); x += dropout(cross-attention(norm x, encoded));
/// x += dropout(feed-forward(norm x)) + recurrence(another norm x). Without cross_projection the
/// second is left out, without recurrence the last term.
struct Block {
  enum class Place { encoder, decoder };

  /// An encoder's projection is always dense (reference 7.4).
  Block(const ModelConfig& config, Place place);
  /// Of seats and norms, with the prefix they were given by name_parameters.
  void visit_parameters(const ParameterVisitor& visit);
  /// To be called once: prefixes all names ("decoder.0.").
  void name_parameters(const std::string& with);

  /// What a forward keeps for its backward.
  struct Kept {
    struct Self {
      Norm::Kept norm;
      Mat normed, o, out;
      Projection::QKV qkv;
      std::unique_ptr<Activations> projection, attention;
      Activations dropout;
    } self;
    struct Cross {
      Norm::Kept norm;
      Mat normed, q, o, out;
      CrossProjection::Memory memory;
      std::unique_ptr<Activations> projection, attention;
      Activations dropout;
    } cross;
    struct FeedForwardPart {
      Norm::Kept norm;
      Mat normed, out;
      std::unique_ptr<Activations> layer;
      Activations dropout;
    } feed_forward;
    struct RecurrencePart {
      Norm::Kept norm;
      Mat normed;
      std::unique_ptr<Activations> layer;
    } recurrence;
  };
  Kept make_kept(const Attention& self_attention, const Attention& cross_attention) const;

  /// x and the result (which lives in `kept`): (examples * length, d).
  const Mat& forward(Pass& pass, const Surroundings& around, const Mat& x, Kept& kept,
                     BlockScratch& scratch) const;
  /// dx enters as the gradient of the result and leaves as that of x. Adds the gradient of
  /// around.encoded to dencoded, which may be null if there is none.
  void backward(Pass& pass, const Surroundings& around, const Mat& x, Kept& kept,
                BlockScratch& scratch, Mat& dx, Mat* dencoded) const;

  std::string prefix;
  Norm attention_norm, cross_norm, feed_forward_norm, recurrence_norm;
  std::unique_ptr<Projection> projection;
  std::unique_ptr<CrossProjection> cross_projection;  ///< null in encoders and decoder-only models
  std::unique_ptr<FeedForward> feed_forward;
  std::unique_ptr<Recurrence> recurrence;  ///< null if the config has none

 private:
  const Mat& forward_self(Pass& pass, const Surroundings& around, const Mat& x, Kept::Self& kept,
                          BlockScratch& scratch) const;
  const Mat& forward_cross(Pass& pass, const Surroundings& around, const Mat& x, Kept::Cross& kept,
                           BlockScratch& scratch) const;
  const Mat& forward_feed_forward(Pass& pass, const Mat& x, Kept& kept,
                                  BlockScratch& scratch) const;
  void backward_self(Pass& pass, const Surroundings& around, const Mat& x, Kept::Self& kept,
                     BlockScratch& scratch, Mat& dx) const;
  void backward_cross(Pass& pass, const Surroundings& around, const Mat& x, Kept::Cross& kept,
                      BlockScratch& scratch, Mat& dx, Mat& dencoded) const;
  void backward_feed_forward(Pass& pass, const Mat& x, Kept& kept, BlockScratch& scratch,
                             Mat& dx) const;
};

/// to += more, of the same size, rows shared among the threads.
void add_to(Mat& to, const Mat& more);

}  // namespace scaling
