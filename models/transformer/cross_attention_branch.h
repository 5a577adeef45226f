// f(x) = dropout(cross-attention(norm x, encoded)).
#pragma once

#include <memory>
#include <string>

#include "models/transformer/branch.h"

namespace scaling {

/// Dropout as in SelfAttentionBranch.
class CrossAttentionBranch : public Branch {
 public:
  /// Parameters: prefix + "cross_norm.", "cross_projection.", "cross_attention.".
  CrossAttentionBranch(const ModelConfig& config, const std::string& prefix);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::string name() const override { return name_; }

  std::unique_ptr<BranchActivations> make_activations() const override;
  void forward(Pass& pass, const BlockInputs& inputs, const Mat& x, const Mat& base, float sign,
               BranchActivations& kept, BranchScratch& scratch, Mat& out) const override;
  void backward(Pass& pass, const BlockInputs& inputs, const Mat& x, BranchActivations& kept,
                BranchScratch& scratch, const Mat& dout, Mat& dx, Mat* dencoded) const override;
  double forward_flops(const TrainSizes& sizes) const override;
  double activation_floats(const TrainSizes& sizes) const override;
  double thread_floats(const TrainSizes& sizes) const override;

  std::unique_ptr<BranchState> make_state(const DecodeSizes& sizes) const override;
  std::uint64_t state_bytes(const DecodeSizes& sizes) const override;
  void restart(BranchState& state) const override;
  void begin(const StepContext& ctx, BranchState& state, const Mat& encoded,
             const StepBuffers& buffers) const override;
  void reads_first(const StepContext& ctx, Ahead& ahead) const override {
    projection_->reads_first(ctx, ahead);
  }
  std::int64_t workspace_floats(const DecodeSizes& sizes, int threads) const override;
  void step(const StepContext& ctx, BranchState& state, const float* x, float* acc,
            const StepBuffers& buffers) const override;
  PerPart<Cost> step_cost(const DecodeSizes& sizes) const override;

 private:
  struct Kept;
  struct State;

  Norm norm_;
  std::unique_ptr<CrossProjection> projection_;
  std::unique_ptr<CrossAttention> attention_;
  std::string name_, norm_name_;
  std::int64_t d_, d_head_;
  bool drops_output_;
};

}  // namespace scaling
