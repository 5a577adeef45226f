// Active neurons are listed by the thread that computed them and gathered from W2.
#include "models/layers/feed_forward/dense_relu_skip.h"

#include <cmath>

#include "kernels/check.h"
#include "models/layers/parts/counting.h"

namespace scaling {
namespace {

struct ReluSkipState : LayerState {
  ReluSkipState(std::int64_t tokens, std::int64_t neurons)
      : active(std::size_t(tokens * neurons)),
        values(std::size_t(tokens * neurons)),
        touched(std::size_t(neurons)) {}
  void reorder(const StepContext&, const RowMoves&) override {}
  std::vector<Selection>
      active;  // every thread fills its neurons' stretch from the stretch's start
  std::vector<float> values;
  std::vector<std::uint8_t> touched;  // by neuron, of the last step
};

}  // namespace

std::unique_ptr<LayerState> DenseReluSkipFeedForward::make_state(int tokens) const {
  return std::make_unique<ReluSkipState>(tokens, f_);
}

void DenseReluSkipFeedForward::accumulate(const StepContext& ctx, LayerState* state, const float* h,
                                          Range neurons, float* sum) const {
  SCALING_CHECK(state != nullptr);
  auto& own = *static_cast<ReluSkipState*>(state);
  Selection* active = own.active.data() + neurons.begin * ctx.tokens;
  float* values = own.values.data() + neurons.begin * ctx.tokens;
  std::int64_t n = 0;
  for (std::int64_t j = neurons.begin; j < neurons.end; ++j) {
    const std::int64_t before = n;
    for (int t = 0; t < ctx.tokens; ++t) {
      const float value = h[t * f_ + j];
      if (value <= 0) continue;
      active[n] = {std::int32_t(j), t};
      values[n++] = value;
    }
    own.touched[std::size_t(j)] = n > before;
  }
  ctx.kernels.gather_accumulate(w2_.view(), active, n, values, sum);
}

Cost DenseReluSkipFeedForward::step_cost(int tokens, WeightType type) const {
  const double matrix = double(d_ * f_);
  const double read = matrix * (1 - std::pow(0.5, tokens));
  return {phase_of("up", matrix, double(f_), 2 * matrix * tokens, type),
          phase_of("down", read, double(d_), matrix * tokens, type)};
}

std::vector<std::int32_t> DenseReluSkipFeedForward::touched_rows(const LayerState* state) const {
  const auto& own = *static_cast<const ReluSkipState*>(state);
  std::vector<std::int32_t> rows;
  for (std::size_t j = 0; j < own.touched.size(); ++j) {
    if (own.touched[j]) rows.push_back(std::int32_t(j));
  }
  return rows;
}

}  // namespace scaling
