// The low-rank layer to the vocabulary (paper 2.2, 3).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/low_rank_dense.h"

namespace scaling {

struct LowRankLossKnobs {
  std::int64_t loss_rank = 64;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("loss_rank", k.loss_rank, "rank of the low_rank loss", Trait{.is_size = true});
  }
};

/// Parameters a, a_bias, b, b_bias; rank loss_rank.
class LowRankLoss : public Loss {
 public:
  using Options = LowRankLossKnobs;
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config) { set_field(config, "loss_rank", 24); }
  explicit LowRankLoss(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using Loss::forward;
  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& logits) const override;
  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dlogits,
                Mat& dx) const override;
  void step(const StepContext& ctx, LayerState* state, const float* x,
            float* logits) const override;
  Cost step_cost(int tokens, WeightType type) const override;

 private:
  struct Kept : LossActivations {
    LowRankDense::Kept layer;
  };
  LowRankDense layer_;
};

}  // namespace scaling
