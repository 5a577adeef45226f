// Four alike and independent layers for q, k, v and the output: dense, low_rank, local,
// multiplicative, mult_modular.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "models/layer.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/partial_sums.h"

namespace scaling {

/// Block: a building block with kPhases, phase(), Kept, forward(), backward(), step_cost(). The
/// phases of q, k and v run side by side, so three products cost the barriers of one.
template <class Block>
class IndependentProjection : public Projection {
 public:
  /// make(part) makes the block of part "q", "k", "v" or "o".
  template <class Make>
  explicit IndependentProjection(const Make& make)
      : q_(make("q")), k_(make("k")), v_(make("v")), o_(make("o")) {}

  void visit_parameters(const ParameterVisitor& visit) override {
    for (Block* block : {&q_, &k_, &v_, &o_}) block->visit_parameters(visit);
  }
  std::int64_t workspace_floats(int tokens, int threads) const override {
    return 3 * piece(tokens, threads);
  }
  std::unique_ptr<Activations> make_activations() const override {
    return std::make_unique<Kept>();
  }
  using Projection::forward;
  using Projection::forward_output;
  void forward(Pass& pass, const Mat& x, Activations& kept, QKV& y) const override {
    Kept& own = static_cast<Kept&>(kept);
    q_.forward(pass, x, own.q, y.q);
    k_.forward(pass, x, own.k, y.k);
    v_.forward(pass, x, own.v, y.v);
  }
  void backward(Pass& pass, const Mat& x, Activations& kept, const QKV& dy,
                Mat& dx) const override {
    Kept& own = static_cast<Kept&>(kept);
    q_.backward(pass, x, own.q, dy.q, dx);
    k_.backward(pass, x, own.k, dy.k, dx, /*accumulate=*/true);
    v_.backward(pass, x, own.v, dy.v, dx, /*accumulate=*/true);
  }
  void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const override {
    o_.forward(pass, o, static_cast<Kept&>(kept).o, y);
  }
  void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                       Mat& do_) const override {
    o_.backward(pass, o, static_cast<Kept&>(kept).o, dy, do_);
  }

  void step(const StepContext& ctx, LayerState*, const float* x, float* q, float* k,
            float* v) const override {
    const std::int64_t size = piece(ctx.tokens, ctx.threads);
    for (int p = 0; p < Block::kPhases; ++p) {
      q_.phase(p, ctx, ctx.workspace, x, q);
      k_.phase(p, ctx, ctx.workspace + size, x, k);
      v_.phase(p, ctx, ctx.workspace + 2 * size, x, v);
      ctx.sync();
    }
  }
  bool has_output() const override { return true; }
  void step_output(const StepContext& ctx, LayerState*, const float* o, float* y) const override {
    for (int p = 0; p < Block::kPhases; ++p) {
      o_.phase(p, ctx, ctx.workspace, o, y);
      ctx.sync();
    }
  }
  Cost step_cost(int tokens, WeightType type) const override {
    const Cost one = o_.step_cost(tokens, type);
    Cost cost = repeated(one, 3, "qkv");
    append(cost, repeated(one, 1, "output"));
    return cost;
  }
  double activation_floats() const override { return 4 * o_.kept_floats(); }

 private:
  struct Kept : Activations {
    typename Block::Kept q, k, v, o;
  };
  std::int64_t piece(int tokens, int threads) const {
    return padded(q_.workspace_floats(tokens, threads));
  }
  Block q_, k_, v_, o_;
};

}  // namespace scaling
