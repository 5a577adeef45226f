// Dense feed-forward that does not read the rows of W2 whose activation is zero: reported, never
// ranked.
#pragma once

#include "models/layers/feed_forward/dense.h"

namespace scaling {

/// The same function as DenseFeedForward. With random weights half of the activations are zero;
/// touched_rows tells how many rows of W2 were really read.
class DenseReluSkipFeedForward : public DenseFeedForward {
 public:
  static constexpr Traits kTraits{};
  explicit DenseReluSkipFeedForward(const ModelConfig& config) : DenseFeedForward(config) {
    w2_.is_dense = false;  // gathered
  }
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  /// W2 is counted as the expected union of rows if each activation is zero half of the time.
  Cost step_cost(int tokens, WeightType type) const override;
  std::vector<std::int32_t> touched_rows(const LayerState* state) const override;

 protected:
  void accumulate(const StepContext& ctx, LayerState* state, const float* h, Range neurons,
                  float* sum) const override;
};

}  // namespace scaling
