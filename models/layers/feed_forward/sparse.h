// The paper's sparse feed-forward layer: a low-rank controller chooses one neuron in N
// (paper 1.2).
#pragma once

#include <array>

#include "models/layer.h"
#include "models/layers/feed_forward/chosen_neurons.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/selection.h"
#include "models/layers/parts/selection_loss.h"
#include "models/layers/traits.h"

namespace scaling {

/// What chooses the neurons.
enum class Selector { learned, random, hash };
constexpr std::array<const char*, 3> names_of(Selector) { return {"learned", "random", "hash"}; }

struct SparseKnobs {
  std::int64_t sparsity = 64;      // N, neurons of which one is computed
  std::int64_t d_lowrank = 0;      // r of the controller; 0: d_ff / N
  bool feed_forward_bias = false;  // b1 (the paper's formula has one)
  Selector selector = Selector::learned;
  SelectionKnobs selection;
  bool kernel_scaling = false;  // W2 starts sqrt(N) times as large

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("sparsity", k.sparsity, "N: one neuron in N is computed", size);
    visit("d_lowrank", k.d_lowrank, "rank of the controller; 0: d_ff / N", size);
    visit("feed_forward_bias", k.feed_forward_bias, "b1 in the sparse feed-forward");
    visit(
        "selector", k.selector,
        "what chooses the sparse feed-forward's neurons: learned (the paper's controller), random "
        "(the same, never trained) or hash (of the token id)");
    SelectionKnobs::fields(k.selection, visit);
    visit("kernel_scaling", k.kernel_scaling, "start the sparse feed-forward's W2 sqrt(N) larger");
  }
  std::int64_t rank(const ModelConfig& config) const {
    return d_lowrank ? d_lowrank : config.d_ff / sparsity;
  }
};

/// y = relu((x W1^T + b1) m) W2 + b2, where the mask m is one in each block of N neurons (hard) or,
/// in most training calls, the controller's softmax (soft). SparseKnobs::selector may replace the
/// controller by one that is never trained or by a hash of the token id; both always select hard.
class SparseFeedForward : public FeedForward {
 public:
  using Options = SparseKnobs;
  static constexpr Traits kTraits{.d_ff_multiple_of = "sparsity", .can_start_dense = true};
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  static bool selects_softly(const ModelConfig& config) {
    return config.options<SparseKnobs>().selector == Selector::learned;
  }
  explicit SparseFeedForward(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  void reads_first(const StepContext& ctx, Ahead& ahead) const override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;

  /// What make_activations makes. chosen: (positions, d_ff / N), neuron within its block; in a soft
  /// call the likeliest.
  struct Kept : Activations {
    /// (positions, d_ff). Softmax of every block after training, else the logits; empty for hash.
    Mat p;
    bool has_probabilities = false;
    bool has_all = false;  ///< no neuron was chosen: all were computed
    Mat h;                 ///< (positions, d_ff), after mask and ReLU; of a soft call, or of all
    Mat active;            ///< (positions, d_ff / N), chosen neurons after ReLU; of a hard call
    Mat hidden, dh, dactive, dz, dhidden;
    Floats shares;  ///< of SelectionLoss
  };
  std::unique_ptr<Activations> make_activations() const override;
  using FeedForward::forward;
  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const override;
  /// Follows a forward in training. A hard call is straight-through: the controller learns from the
  /// chosen neurons that are active. No noise or temperature in the softmax's derivative. After a
  /// pass of all neurons it learns nothing.
  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy, Mat& dx) const override;
  /// Entropy of the learned controller.
  double selection_entropy(const Activations& kept) const override;

  /// Controller logits z (positions, d_ff), of which evaluation takes the argmax of every block.
  /// Not for hash.
  Mat controller_logits(const Mat& x) const;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const override;
  /// For several tokens the gathered rows are the expected union of uniform, independent
  /// selections.
  Cost step_cost(int tokens, WeightType type) const override;
  double forward_flops() const override;
  double activation_floats() const override;
  std::vector<std::int32_t> touched_rows(const LayerState* state) const override;
  /// A neuron of every block.
  Choices choices() const override { return {blocks_, n_}; }
  std::vector<std::int32_t> chosen(const LayerState* state) const override;
  void replay(LayerState* state, const std::int32_t* chosen) const override;

 private:
  SparseFeedForward(const ModelConfig& config, const SparseKnobs& knobs);
  Blocks shape() const { return {blocks_, n_}; }
  void compute_logits(const Pass& pass, const Mat& x, Mat& hidden, Mat& z) const;
  void select(const Pass& pass, std::int64_t row, Kept& own) const;
  /// Neurons of a range of blocks for a token id.
  void select_by_hash(int id, Range blocks, std::int32_t* selected) const;
  void forward_all(const Pass& pass, const Mat& x, Kept& own, Mat& y) const;
  void backward_all(Pass& pass, const Mat& x, Kept& own, const Mat& dy, Mat& dx) const;
  void mask_soft(const float* p, float* h) const;
  void mask_soft_backward(const Kept& own, std::int64_t row, float* dh, float* dz) const;
  void logits_backward(const Kept& own, std::int64_t row, float* dz) const;
  ChosenNeurons chosen_of(const Kept& own) const {
    return {shape(), own.chosen.data(), w1_, has_b1_ ? &b1_ : nullptr, w2_};
  }
  std::int64_t controller_floats(int tokens, int threads) const;
  std::int64_t list_selections(const StepContext& ctx, const std::int32_t* selected, Range blocks,
                               Selection* list) const;

  std::int64_t d_, f_, n_, blocks_, rank_;
  bool has_b1_;
  Selector selector_;
  double tau_, hard_probability_;
  SelectionLoss loss_;
  std::uint64_t seed_;
  Parameter c1_, c2_, controller_bias_, w1_, b1_, w2_, b2_;
};

}  // namespace scaling
