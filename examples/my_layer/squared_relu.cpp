// A feed-forward of one's own: y = relu(x W1^T + b1)^2 W2 + b2 (So et al. 2021, "Primer"), named
// by `--feed_forward squared_relu`.
#include <memory>
#include <vector>

#include "kernels/parallel.h"
#include "models/layers/catalog_entry.h"
#include "models/layers/feed_forward/dense.h"
#include "models/layers/parts/product.h"

namespace {

using namespace scaling;

struct SquaredActivations : Activations {
  Mat r;     ///< (positions, d_ff), after the ReLU
  Mat h;     ///< its square, after dropout
  Mat mask;  ///< (examples, d_ff), factors of dropout; only where there is any
  Mat dh;
};

/// The square of a thread's neurons, for the second matrix.
struct Squares : LayerState {
  void reorder(const StepContext&, const RowMoves&) override {}
  std::vector<float> h;
};

/// Parameters, sizes, first half and costs are the dense feed-forward's.
class SquaredRelu : public DenseFeedForward {
 public:
  static constexpr Traits kTraits{};
  using DenseFeedForward::DenseFeedForward;
  using FeedForward::forward;
  std::unique_ptr<Activations> make_activations() const override {
    return std::make_unique<SquaredActivations>();
  }
  double activation_floats() const override { return 3 * double(f_); }

  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const override {
    auto& own = static_cast<SquaredActivations&>(kept);
    kept.take_stream(pass);
    times_transposed(pass, x, w1_, own.r);
    add_bias(own.r, b1_);
    own.r = own.r.cwiseMax(0.0f);
    own.h = own.r.cwiseAbs2();
    if (pass.drops()) {
      own.mask.setOnes(pass.examples, f_);
      apply_dropout(pass, kept.stream, own.mask);
      const std::int64_t length = pass.length(x);
      for (std::int64_t row = 0; row < x.rows(); ++row) {
        own.h.row(row).array() *= own.mask.row(row / length).array();
      }
    }
    times(pass, own.h, w2_, y);
    add_bias(y, b2_);
  }

  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                Mat& dx) const override {
    auto& own = static_cast<SquaredActivations&>(kept);
    bias_backward(dy, b2_);
    times_backward(pass, own.h, w2_, dy, own.dh);
    // What dropout left out is zero in h, what it kept was scaled.
    const float scale = pass.drops() ? pass.kept_scale() : 1.0f;
    own.dh.array() *= (own.h.array() > 0).select(2 * scale * own.r.array(), 0.0f);
    bias_backward(own.dh, b1_);
    times_transposed_backward(pass, x, w1_, own.dh, dx);
  }

  std::unique_ptr<LayerState> make_state(int tokens) const override {
    auto state = std::make_unique<Squares>();
    state->h.resize(std::size_t(tokens * f_));
    return state;
  }

 protected:
  void accumulate(const StepContext& ctx, LayerState* state, const float* h, Range neurons,
                  float* sum) const override {
    float* squared = static_cast<Squares*>(state)->h.data();
    for (int token = 0; token < ctx.tokens; ++token) {
      for (std::int64_t i = neurons.begin; i < neurons.end; ++i) {
        squared[token * f_ + i] = h[token * f_ + i] * h[token * f_ + i];
      }
    }
    DenseFeedForward::accumulate(ctx, state, squared, neurons, sum);
  }
};

const bool kIsInCatalog = add_entry(entry<FeedForward, SquaredRelu>("squared_relu"));

}  // namespace
