// Mixture of experts: contiguous slices of the neurons, one chosen per token by a router
// (paper 1.3).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/selection.h"
#include "models/layers/parts/selection_loss.h"
#include "models/layers/traits.h"

namespace scaling {

struct MoeKnobs {
  SelectionKnobs selection;
  std::int64_t experts = 64;  // E

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    SelectionKnobs::fields(k.selection, visit);
    visit("experts", k.experts, "experts of the mixture-of-experts layers", Trait{.is_size = true});
  }
};

/// Block: the chosen expert's output as it is. Switch: its activations scaled by the router's
/// probability.
class MoeFeedForward : public FeedForward {
 public:
  enum class Kind { block, switched };
  using Options = MoeKnobs;
  static constexpr Traits kTraits{.d_ff_multiple_of = "experts"};
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config) { set_field(config, "experts", 4); }
  static bool selects_softly(const ModelConfig&, Kind kind) { return kind == Kind::block; }
  MoeFeedForward(const ModelConfig& config, Kind kind);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;

  /// What make_activations makes. chosen: expert of every position, in a soft call the likeliest;
  /// is_hard: always for Switch.
  struct Kept : Activations {
    Mat p;  ///< (positions, experts), the router's softmax
    Mat h;  ///< (positions, d_ff), after mask and ReLU
    Mat dh, dz;
    Floats shares;  ///< of SelectionLoss
  };
  std::unique_ptr<Activations> make_activations() const override;
  using FeedForward::forward;
  /// Computes all experts and masks them. In training the mask of Block is one for the chosen
  /// expert in some calls (SelectionKnobs::hard_probability), each expert's probability in the
  /// others.
  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const override;
  /// Straight-through where the mask is one.
  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy, Mat& dx) const override;
  double selection_entropy(const Activations& kept) const override;

  /// Router logits (positions, experts).
  Mat router_logits(const Mat& x) const;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const override;
  /// For several tokens the slices are the expected union of uniform, independent choices.
  Cost step_cost(int tokens, WeightType type) const override;
  double forward_flops() const override;
  double activation_floats() const override;
  std::vector<std::int32_t> touched_rows(const LayerState* state) const override;
  /// An expert.
  Choices choices() const override { return {1, experts_}; }
  std::vector<std::int32_t> chosen(const LayerState* state) const override;
  void replay(LayerState* state, const std::int32_t* chosen) const override;

 private:
  MoeFeedForward(const ModelConfig& config, const MoeKnobs& knobs, Kind kind);
  struct Choice {
    std::int64_t expert;
    float scale;
  };
  Choice choose(const float* logits) const;
  Blocks shape() const { return {1, experts_}; }
  void select(const Pass& pass, std::int64_t row, Kept& own) const;
  /// What multiplies an expert's activations at a position.
  float mask_of(const Kept& own, std::int64_t row, std::int64_t expert) const;
  void mask(const Kept& own, std::int64_t row, float* h) const;
  void mask_backward(const Kept& own, std::int64_t row, float* dh, float* dz) const;
  void apply_expert(const StepContext& ctx, const Choice& choice, const float* x, float* h,
                    float* sum) const;

  const Kind kind_;
  std::int64_t d_, f_, experts_, width_;
  double tau_, hard_probability_;
  SelectionLoss loss_;
  Parameter router_, w1_, w2_, b2_;
};

}  // namespace scaling
