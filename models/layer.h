// The components of a model and what a layer must offer to be one.
//
// forward takes a whole batch of sequences, rows = positions (models/pass.h), by plain matrix
// products over the masked dense definition; training and evaluation differ by pass.training only.
// backward follows a forward of the same pass, x and Activations: it adds to the parameters'
// gradients and overwrites dx. step is one decode step of ctx.tokens independent sequences through
// the kernel set, executed by every thread of the team with equal arguments: on entry x is
// complete, on return (after a barrier inside) y is complete. forward in evaluation and step agree,
// unless a layer's traits say that its step is approximate (models/layers/traits.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cost.h"
#include "kernels/kernels.h"
#include "kernels/team.h"
#include "models/block_part.h"
#include "models/config.h"
#include "models/matrix.h"
#include "models/parameter.h"
#include "models/pass.h"
#include "models/row_moves.h"

namespace scaling {

/// What a thread knows during a decode step.
struct StepContext {
  const KernelSet& kernels;
  Barrier& barrier;
  int thread;
  int threads;
  int tokens;             ///< independent sequences decoded together, 1 to kMaxTokens
  std::int64_t position;  ///< index of the current token, the same for all sequences
  float* workspace;       ///< shared by the team, at least workspace_floats of the running layer
  /// Current token of every sequence, for layers that choose by token; may be null if none does.
  const int* ids = nullptr;
  /// Thread 0's in a profiled step, else null.
  PartClock* clock = nullptr;
  /// Calls of Barrier::claim since the last sync; counted alike by every thread.
  mutable int queue = 0;
  /// What the thread reads after the branch that is running.
  mutable Ahead ahead = {};

  Range share(std::int64_t n, std::int64_t multiple = 1) const {
    return share_of(n, thread, threads, multiple);
  }
  void sync() const {
    barrier.wait();
    queue = 0;
  }
  /// From here on time is the part's.
  void enter(BlockPart part) const {
    if (clock) clock->enter(part, barrier.meetings());
  }

  /// How n rows are divided: most in equal shares, the rest in pieces to whoever is done first,
  /// since equal shares of memory's bandwidth never end together.
  struct RowPartition {
    std::int64_t n, shared, piece;
    std::int64_t pieces() const { return (n - shared + piece - 1) / piece; }
    Range rows(std::int64_t p) const {
      return {shared + p * piece, std::min(n, shared + (p + 1) * piece)};
    }
  };
  /// Whole shares only for a single thread, for few bytes, and for kernel sets that suffer from
  /// small pieces.
  RowPartition partition(std::int64_t n, std::int64_t row_bytes) const;
  static constexpr std::int64_t kMaxPieces = 16;
  /// fn(part, rows) for the thread's share (part = thread) and for the pieces it gets hold of (part
  /// = threads + piece).
  template <class Fn>
  void for_rows(const RowPartition& partition, Fn&& fn) const {
    fn(thread, share_of(partition.shared, thread, threads, 16));
    if (partition.shared == partition.n) return;
    for (const int own = queue++;;) {
      const int piece = barrier.claim(own);
      if (piece >= partition.pieces()) return;
      fn(threads + piece, partition.rows(piece));
    }
  }
};

/// What an implementation keeps between the steps of one decode; most keep nothing.
struct LayerState {
  virtual ~LayerState() = default;
  /// Between two steps: what is remembered of earlier positions moves as sequences do. What serves
  /// one step only need not. ctx.position: positions that are remembered. Executed by every thread
  /// of the team; a barrier before the next step is the caller's.
  virtual void reorder(const StepContext& ctx, const RowMoves& moves) = 0;
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// Every parameter, always in the same order.
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;
  /// Floats of shared workspace that step needs.
  virtual std::int64_t workspace_floats(int tokens, int threads) const = 0;
  /// State of `tokens` sequences at position 0, or null.
  virtual std::unique_ptr<LayerState> make_state(int /*tokens*/) const { return nullptr; }
  /// Adds to `ahead` what the calling thread's step reads first, as far as that is known before.
  virtual void reads_first(const StepContext& /*ctx*/, Ahead& /*ahead*/) const {}
  /// Buffers of one place of this layer in a model; what forward and backward take.
  virtual std::unique_ptr<Activations> make_activations() const = 0;
};

/// What a layer's step chooses for each token: one of `options` in each of `count` places.
struct Choices {
  std::int64_t count = 0, options = 0;  ///< 0: it chooses nothing
  friend bool operator==(const Choices&, const Choices&) = default;
};

/// x (positions, d_model) -> y (positions, d_model). No layer norm, no residual.
class FeedForward : public Layer {
 public:
  virtual void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const = 0;
  virtual void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                        Mat& dx) const = 0;
  /// Evaluation of one sequence.
  Mat forward(const Mat& x) const;
  virtual void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const = 0;
  virtual Cost step_cost(int tokens, WeightType type) const = 0;
  /// FLOP of a training forward of one position; may be many times a step's, where training
  /// computes what it then masks.
  virtual double forward_flops() const = 0;
  /// Floats that its Activations hold for each position of a training step.
  virtual double activation_floats() const = 0;
  /// Rows of W1 (= of W2) that the last step of this state touched, or empty if all are read
  /// always.
  virtual std::vector<std::int32_t> touched_rows(const LayerState* /*state*/) const { return {}; }
  virtual Choices choices() const { return {}; }
  /// What the last step of this state chose: (tokens, choices().count), each an option.
  virtual std::vector<std::int32_t> chosen(const LayerState* /*state*/) const { return {}; }
  /// Later steps of this state choose as ever, and then take these instead, (tokens,
  /// choices().count), until told others; null: they take their own again. `chosen` outlives them.
  virtual void replay(LayerState* /*state*/, const std::int32_t* /*chosen*/) const {}
  /// Mean entropy, in nats, of the learned distributions from which the last forward selected; NaN
  /// if there are none. Takes a logarithm for each of them and every position: not for each step.
  virtual double selection_entropy(const Activations& /*kept*/) const {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

/// x (positions, d_model) -> y (positions, d_model) beside the feed-forward (paper 6): carries
/// a state from each position of an example to the next. No layer norm, residual or dropout.
class Recurrence : public Layer {
 public:
  virtual void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const = 0;
  virtual void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy,
                        Mat& dx) const = 0;
  /// Evaluation of one sequence.
  Mat forward(const Mat& x) const;
  /// state: of make_state; goes one position on.
  virtual void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const = 0;
  virtual Cost step_cost(int tokens, WeightType type) const = 0;
  /// As FeedForward's; products are a step's, unless the layer says otherwise.
  virtual double forward_flops() const { return total(step_cost(1, WeightType::f32)).flops; }
  virtual double activation_floats() const = 0;
};

/// Self-attention's projections: x -> (q, k, v), and o -> y unless the implementation has no
/// output.
class Projection : public Layer {
 public:
  struct QKV {
    Mat q, k, v;
  };
  virtual void forward(Pass& pass, const Mat& x, Activations& kept, QKV& y) const = 0;
  virtual void backward(Pass& pass, const Mat& x, Activations& kept, const QKV& dy,
                        Mat& dx) const = 0;
  /// Not to be called if there is no output: the caller takes o for y.
  virtual void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const = 0;
  virtual void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                               Mat& do_) const = 0;
  /// Evaluation of one sequence; o itself if there is no output.
  QKV forward(const Mat& x) const;
  Mat forward_output(const Mat& o) const;
  /// q, k, v: (tokens, d_model).
  virtual void step(const StepContext& ctx, LayerState* state, const float* x, float* q, float* k,
                    float* v) const = 0;
  virtual bool has_output() const = 0;
  virtual void step_output(const StepContext& ctx, LayerState* state, const float* o,
                           float* y) const = 0;
  virtual Cost step_cost(int tokens, WeightType type) const = 0;
  /// As FeedForward's; products are a step's, unless the layer says otherwise.
  virtual double forward_flops() const { return total(step_cost(1, WeightType::f32)).flops; }
  virtual double activation_floats() const = 0;
};

/// Cross-attention's projections: query from the decoder, keys and values (always dense) from the
/// encoder output, computed once a decode.
class CrossProjection : public Layer {
 public:
  struct Memory {
    Mat k, v;
  };
  virtual void forward_memory(Pass& pass, const Mat& encoded, Activations& kept,
                              Memory& y) const = 0;
  virtual void backward_memory(Pass& pass, const Mat& encoded, Activations& kept, const Memory& dy,
                               Mat& dencoded) const = 0;
  /// The same through the kernel set, for ctx.tokens positions of the encoder output at once.
  virtual void step_memory(const StepContext& ctx, const float* encoded, float* k,
                           float* v) const = 0;
  virtual void forward_query(Pass& pass, const Mat& x, Activations& kept, Mat& q) const = 0;
  virtual void backward_query(Pass& pass, const Mat& x, Activations& kept, const Mat& dq,
                              Mat& dx) const = 0;
  /// Not to be called if there is no output: the caller takes o for y.
  virtual void forward_output(Pass& pass, const Mat& o, Activations& kept, Mat& y) const = 0;
  virtual void backward_output(Pass& pass, const Mat& o, Activations& kept, const Mat& dy,
                               Mat& do_) const = 0;
  /// Evaluation of one sequence; o itself if there is no output.
  Memory forward_memory(const Mat& encoded) const;
  Mat forward_query(const Mat& x) const;
  Mat forward_output(const Mat& o) const;
  virtual void step_query(const StepContext& ctx, LayerState* state, const float* x,
                          float* q) const = 0;
  virtual bool has_output() const = 0;
  virtual void step_output(const StepContext& ctx, LayerState* state, const float* o,
                           float* y) const = 0;
  virtual Cost step_cost(int tokens, WeightType type) const = 0;
  /// As Projection's, of a position that asks, and FLOP of keys and values of one that is asked.
  virtual double forward_flops() const { return total(step_cost(1, WeightType::f32)).flops; }
  virtual double memory_flops() const = 0;
  virtual double activation_floats() const = 0;
};

/// Sums over the weighted positions of a batch.
struct CrossEntropy {
  double loss = 0;               ///< sum of weight * -log softmax(logits)[target], nats
  double weight = 0;             ///< sum of weights
  double correct = 0;            ///< sum of weights where the target has the largest logit
  double sequences = 0;          ///< examples with any weight
  double correct_sequences = 0;  ///< of which every weighted position is correct
  /// In training, the loss of ModelConfig::future_tokens behind the next, each times its share.
  double future_loss = 0;
};

/// What every loss layer's Activations derive from: the piece of a batch at hand.
struct LossActivations : Activations {
  Mat x, logits, dx;
  std::vector<CrossEntropy> rows;
};

/// The final layer: x (positions, d_model) -> logits (positions, vocab_size).
class Loss : public Layer {
 public:
  virtual void forward(Pass& pass, const Mat& x, Activations& kept, Mat& logits) const = 0;
  virtual void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dlogits,
                        Mat& dx) const = 0;
  /// Evaluation of one sequence.
  Mat forward(const Mat& x) const;
  /// Logits of a few hundred rows at a time, so that no positions x vocabulary matrix exists. If dx
  /// is not null it becomes the gradient of scale * loss, which parameters' gradients receive too.
  /// targets, weights: one a row. by_example, if not null, becomes the loss of every example.
  CrossEntropy cross_entropy(Pass& pass, const Mat& x, const int* targets, const float* weights,
                             float scale, Activations& kept, Mat* dx,
                             std::vector<double>* by_example = nullptr) const;
  virtual void step(const StepContext& ctx, LayerState* state, const float* x,
                    float* logits) const = 0;
  virtual Cost step_cost(int tokens, WeightType type) const = 0;
  /// As Recurrence's.
  virtual double forward_flops() const { return total(step_cost(1, WeightType::f32)).flops; }
};

}  // namespace scaling
