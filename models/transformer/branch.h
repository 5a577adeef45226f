// A residual branch of a block: norm, layers and dropout between the stream that it reads and the
// stream to which its result is added (reference 5.1, 7.1).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/layer.h"
#include "models/transformer/concatenation.h"
#include "models/transformer/norm.h"

namespace scaling {

/// What the branches of one stack see beside the streams.
struct Surroundings {
  const Attention& self_attention;
  const Attention& cross_attention;
  AttentionMask self = {};
  const Mat* encoded = nullptr;  ///< (examples * source length, d)
  AttentionMask cross = {};
  /// Not null: `encoded`, whose tokens are `source`, goes before the decoder's own rows.
  const Concatenation* joined = nullptr;
  const std::vector<int>* source = nullptr;
};

/// Buffers that the branches of one stack use one after another.
struct BranchScratch {
  Mat y, dy, dnormed, do_;
  Projection::QKV dqkv;
  Mat dq, dmemory_input, drecurrent;
  CrossProjection::Memory dmemory;
};

enum class Place { encoder, decoder };

class Branch {
 public:
  virtual ~Branch() = default;
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;

  /// What a forward keeps for its backward; the result may be kept here too.
  struct Kept {
    virtual ~Kept() = default;
    /// fn for all that a repeated forward must find as it was, always in the same order.
    virtual void for_each_decisions(const std::function<void(Decisions&)>& fn) = 0;
    Mat out;
  };
  virtual std::unique_ptr<Kept> make_kept(const Attention& self_attention,
                                          const Attention& cross_attention) const = 0;

  /// out = base + sign * f(x), f being all of the branch. x, base, out: (examples * length, d);
  /// out may be base.
  virtual void forward(Pass& pass, const Surroundings& around, const Mat& x, const Mat& base,
                       float sign, Kept& kept, BranchScratch& scratch, Mat& out) const = 0;
  /// ADDS to dx the gradient of f(x), given that of the result, dout; the two may be one matrix.
  /// Adds the gradient of around.encoded to dencoded, which may be null if there is none.
  virtual void backward(Pass& pass, const Surroundings& around, const Mat& x, Kept& kept,
                        BranchScratch& scratch, const Mat& dout, Mat& dx, Mat* dencoded) const = 0;
};

/// f(x) = dropout(self-attention(norm x)). The dropout is for plain stacks only: reversible ones
/// drop attention's probabilities alone (reference 5.1).
class SelfAttentionBranch : public Branch {
 public:
  /// number: 1, 2, ... within its block. Parameters: prefix + "attention_norm.", "projection.", of
  /// further ones "attention2_norm.", "projection2." and so on.
  SelfAttentionBranch(const ModelConfig& config, Place place, int number,
                      const std::string& prefix);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::unique_ptr<Branch::Kept> make_kept(const Attention& self_attention,
                                          const Attention& cross_attention) const override;
  void forward(Pass& pass, const Surroundings& around, const Mat& x, const Mat& base, float sign,
               Branch::Kept& kept, BranchScratch& scratch, Mat& out) const override;
  void backward(Pass& pass, const Surroundings& around, const Mat& x, Branch::Kept& kept,
                BranchScratch& scratch, const Mat& dout, Mat& dx, Mat* dencoded) const override;

  Norm norm;
  /// An encoder's is always dense (reference 7.4).
  std::unique_ptr<Projection> projection;

 private:
  struct Kept;
  std::string norm_name_;
  bool drops_output_;
};

/// f(x) = dropout(cross-attention(norm x, encoded)); dropout as in SelfAttentionBranch.
class CrossAttentionBranch : public Branch {
 public:
  CrossAttentionBranch(const ModelConfig& config, const std::string& prefix);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::unique_ptr<Branch::Kept> make_kept(const Attention& self_attention,
                                          const Attention& cross_attention) const override;
  void forward(Pass& pass, const Surroundings& around, const Mat& x, const Mat& base, float sign,
               Branch::Kept& kept, BranchScratch& scratch, Mat& out) const override;
  void backward(Pass& pass, const Surroundings& around, const Mat& x, Branch::Kept& kept,
                BranchScratch& scratch, const Mat& dout, Mat& dx, Mat* dencoded) const override;

  Norm norm;
  std::unique_ptr<CrossProjection> projection;

 private:
  struct Kept;
  std::string norm_name_;
  bool drops_output_;
};

/// f(x) = dropout(feed-forward(norm x)) + recurrence(another norm x), the last term if there is a
/// recurrence (reference 6). In reversible stacks all positions of an example share the dropout's
/// mask (reference 5.2).
class FeedForwardBranch : public Branch {
 public:
  FeedForwardBranch(const ModelConfig& config, const std::string& prefix);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::unique_ptr<Branch::Kept> make_kept(const Attention& self_attention,
                                          const Attention& cross_attention) const override;
  void forward(Pass& pass, const Surroundings& around, const Mat& x, const Mat& base, float sign,
               Branch::Kept& kept, BranchScratch& scratch, Mat& out) const override;
  void backward(Pass& pass, const Surroundings& around, const Mat& x, Branch::Kept& kept,
                BranchScratch& scratch, const Mat& dout, Mat& dx, Mat* dencoded) const override;
  /// FeedForward::selection_entropy of the last forward.
  double selection_entropy(const Branch::Kept& kept) const;

  Norm norm, recurrence_norm;
  std::unique_ptr<FeedForward> feed_forward;
  std::unique_ptr<Recurrence> recurrence;  ///< null if the config has none

 private:
  struct Kept;
  std::string prefix_;
  Masks masks_;
};

/// to += factor * more, of the same size, rows shared among the threads.
void add_to(Mat& to, const Mat& more, float factor = 1);

}  // namespace scaling
