// f(x) = dropout(feed-forward(norm x)) + recurrence(another norm x), the last term if there is a
// recurrence (paper 6).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/transformer/branch.h"

namespace scaling {

/// In reversible stacks all positions of an example share the dropout's mask (paper 5.2).
class FeedForwardBranch : public Branch {
 public:
  /// Parameters: prefix + "feed_forward_norm.", "feed_forward.", "recurrence_norm.", "recurrence.".
  FeedForwardBranch(const ModelConfig& config, const std::string& prefix);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::string name() const override { return name_; }

  std::unique_ptr<BranchActivations> make_activations() const override;
  void forward(Pass& pass, const BlockInputs& inputs, const Mat& x, const Mat& base, float sign,
               BranchActivations& kept, BranchScratch& scratch, Mat& out) const override;
  void backward(Pass& pass, const BlockInputs& inputs, const Mat& x, BranchActivations& kept,
                BranchScratch& scratch, const Mat& dout, Mat& dx, Mat* dencoded) const override;
  double selection_entropy(const BranchActivations& kept) const override;
  double forward_flops(const TrainSizes& sizes) const override;
  double activation_floats(const TrainSizes& sizes) const override;

  std::unique_ptr<BranchState> make_state(const DecodeSizes& sizes) const override;
  std::uint64_t state_bytes(const DecodeSizes&) const override { return 0; }
  void restart(BranchState& state) const override;
  void reads_first(const StepContext& ctx, Ahead& ahead) const override {
    layer_->reads_first(ctx, ahead);
  }
  std::int64_t workspace_floats(const DecodeSizes& sizes, int threads) const override;
  void step(const StepContext& ctx, BranchState& state, const float* x, float* acc,
            const StepBuffers& buffers) const override;
  PerPart<Cost> step_cost(const DecodeSizes& sizes) const override;
  std::vector<std::int32_t> touched_rows(const BranchState& state) const override;
  Choices choices() const override { return layer_->choices(); }
  std::vector<std::int32_t> chosen(const BranchState& state) const override;
  void replay(BranchState& state, const std::int32_t* chosen) const override;

 private:
  struct Kept;
  struct State;

  Norm norm_, recurrence_norm_;
  std::unique_ptr<FeedForward> layer_;
  std::unique_ptr<Recurrence> recurrence_;  // null if the config has none
  std::string prefix_, name_;
  std::int64_t d_;
  DropoutMask masks_;
};

}  // namespace scaling
