// A neuron goes through both matrices without a barrier between; only the sums of the threads meet.
#include "models/layers/feed_forward/dense.h"

#include "kernels/parallel.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

struct DenseActivations : Activations {
  Mat h;     // (positions, d_ff), after ReLU and dropout
  Mat mask;  // (examples, d_ff), factors of dropout; only where there is any
  Mat dh;
};

}  // namespace

DenseFeedForward::DenseFeedForward(const ModelConfig& config)
    : d_(config.d_model),
      f_(config.d_ff),
      w1_(Parameter::make_dense("w1", f_, d_, glorot_uniform(d_, f_), {d_, f_}, {1, d_})),
      b1_(Parameter::make_vector("b1", f_, kBias)),
      w2_(Parameter::make_dense("w2", f_, d_, glorot_uniform(f_, d_))),
      b2_(Parameter::make_vector("b2", d_, kBias)) {}

void DenseFeedForward::visit_parameters(const ParameterVisitor& visit) {
  visit(w1_);
  visit(b1_);
  visit(w2_);
  visit(b2_);
}

std::int64_t DenseFeedForward::workspace_floats(int tokens, int threads) const {
  return padded(tokens * f_) +
         PartialSums::floats(d_, tokens, threads + int(StepContext::kMaxPieces));
}

std::unique_ptr<Activations> DenseFeedForward::make_activations() const {
  return std::make_unique<DenseActivations>();
}

void DenseFeedForward::forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const {
  auto& own = static_cast<DenseActivations&>(kept);
  kept.take_stream(pass);
  times_transposed(pass, x, w1_, own.h);
  const bool drops = pass.drops();
  if (drops) {
    own.mask.setOnes(pass.examples, f_);
    apply_dropout(pass, kept.stream, own.mask);
  }
  const std::int64_t length = pass.length(x);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    const ConstRow b1(b1_.vector(), f_);
    for (std::int64_t row = begin; row < end; ++row) {
      Row h(own.h.data() + row * f_, f_);
      if (drops) {
        // The mask is not negative, so it commutes with the ReLU.
        h = (h + b1).max(0.0f) * ConstRow(own.mask.data() + row / length * f_, f_);
      } else {
        h = (h + b1).max(0.0f);
      }
    }
  });
  times(pass, own.h, w2_, y);
  add_bias(y, b2_);
}

void DenseFeedForward::backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                                Mat& dx) const {
  auto& own = static_cast<DenseActivations&>(kept);
  bias_backward(dy, b2_);
  times_backward(pass, own.h, w2_, dy, own.dh);
  // What dropout left out is zero in h, what it kept was scaled.
  const float scale = pass.drops() ? pass.kept_scale() : 1.0f;
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    const float* h = own.h.data();
    float* dh = own.dh.data();
    for (std::int64_t i = begin * f_; i < end * f_; ++i) {
      const float du = dh[i] * scale;
      dh[i] = h[i] > 0 ? du : 0.0f;
    }
  });
  bias_backward(own.dh, b1_);
  times_transposed_backward(pass, x, w1_, own.dh, dx);
}

void DenseFeedForward::step(const StepContext& ctx, LayerState* state, const float* x,
                            float* y) const {
  float* h = ctx.workspace;
  const PartialSums partial{h + padded(ctx.tokens * f_), d_, ctx.tokens};
  // Every piece has a sum of its own, so that the total does not depend on who took it.
  const StepContext::RowPartition partition = ctx.partition(f_, 2 * d_ * bytes_of(w1_.type));
  ctx.for_rows(partition, [&](int part, Range neurons) {
    ctx.kernels.dense(w1_.view(), b1_.vector(), x, ctx.tokens, h, neurons, true);
    accumulate(ctx, state, h, neurons, partial.start(part));
  });
  ctx.sync();
  partial.reduce(ctx, {0, ctx.threads + partition.pieces()}, b2_.vector(), y);
  ctx.sync();
}

void DenseFeedForward::accumulate(const StepContext& ctx, LayerState*, const float* h,
                                  Range neurons, float* sum) const {
  ctx.kernels.dense_transposed(w2_.view(), h, ctx.tokens, sum, neurons);
}

Cost DenseFeedForward::step_cost(int tokens, WeightType type) const {
  const double matrix = double(d_ * f_);
  return {phase_of("up", matrix, double(f_), 2 * matrix * tokens, type),
          phase_of("down", matrix, double(d_), 2 * matrix * tokens, type)};
}

}  // namespace scaling
