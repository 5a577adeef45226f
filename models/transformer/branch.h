// A residual branch of a block: norm, layers and dropout between the stream that it reads and the
// stream to which its result is added (paper 5.1, 7.1). It owns its layers, runs them in a
// batch and in a decode step, and knows what both cost.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/attention.h"
#include "models/transformer/concatenation.h"
#include "models/transformer/norm.h"

namespace scaling {

/// What the branches of one stack see beside the streams.
struct BlockInputs {
  AttentionMask self = {};
  const Mat* encoded = nullptr;  ///< (examples * source length, encoded_width())
  AttentionMask cross = {};
  /// Not null: `encoded`, whose tokens are `source`, goes before the decoder's own rows.
  const Concatenation* joined = nullptr;
  const std::vector<int>* source = nullptr;
};

/// Buffers that the branches of one stack use one after another.
struct BranchScratch {
  Mat y, dy, dnormed, do_;
  Projection::QKV dqkv;
  Mat dq, dmemory_input, drecurrent;
  CrossProjection::Memory dmemory;
};

/// Streams are examples of the pass, so that convolutions and recurrences look back within their
/// own; as long as this lives, those of an example are one sequence, as attention takes them.
class StreamsTogether {
 public:
  StreamsTogether(Pass& pass, std::int64_t streams) : pass_(pass), apart_(pass.examples) {
    pass.examples /= streams;
  }
  ~StreamsTogether() { pass_.examples = apart_; }
  StreamsTogether(const StreamsTogether&) = delete;
  StreamsTogether& operator=(const StreamsTogether&) = delete;

 private:
  Pass& pass_;
  const std::int64_t apart_;
};

/// As long as this lives, no pair is left out: in an encoder and in cross-attention.
class WithoutGraphs {
 public:
  explicit WithoutGraphs(Pass& pass) : pass_(pass), graphs_(pass.graphs) { pass.graphs = nullptr; }
  ~WithoutGraphs() { pass_.graphs = graphs_; }
  WithoutGraphs(const WithoutGraphs&) = delete;
  WithoutGraphs& operator=(const WithoutGraphs&) = delete;

 private:
  Pass& pass_;
  AttentionGraphs* const graphs_;
};

/// What a branch's forward keeps for its backward; the result may be kept here too.
struct BranchActivations {
  virtual ~BranchActivations() = default;
  /// fn for all that a repeated forward must find as it was, always in the same order.
  virtual void for_each_decisions(const std::function<void(Decisions&)>& fn) = 0;
  Mat out;
};

/// Sizes of one example in training: what its forward computes and keeps depends on them.
struct TrainSizes {
  std::int64_t length = 0;  ///< positions of the stack, those of a joint sequence's source included
  std::int64_t source = 0;  ///< positions that cross-attention looks at
  bool causal = false;
  std::int64_t streams = 1;  ///< that the positions are shared by, see AttentionMask
};

/// Sizes of a decode's caches, or of one step.
struct DecodeSizes {
  int tokens = 1;  ///< sequences decoded together
  /// That self-attention's cache has room for or has, the current one and those of a joint
  /// sequence's source included.
  std::int64_t positions = 0;
  std::int64_t source = 0;  ///< that cross-attention looks at
  WeightType type = WeightType::f32;
};

/// What a branch remembers between the steps of a decode: caches, layers' states.
struct BranchState {
  virtual ~BranchState() = default;
  /// As LayerState's; of what every sequence has in common nothing moves.
  virtual void reorder(const StepContext& ctx, const RowMoves& moves) = 0;
};

/// What branches work in during a step.
struct StepBuffers {
  float *q, *k, *v;  ///< the team's, (kMaxTokens, d_model)
  float *o, *y;      ///< the team's, (tokens, d_model)
  float* normed;     ///< the thread's own, (tokens, d_model)
};

/// Queries, keys and values as self-attention took them, after the projection and before any
/// scaling, and its result before the output's product: (examples * length, d_model).
struct AttentionView {
  const Mat *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
};

/// Constant after it is built.
class Branch {
 public:
  virtual ~Branch() = default;
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;
  /// "decoder.1, feed-forward".
  virtual std::string name() const = 0;

  // -- a batch ------------------------------------------------------------------------------------

  virtual std::unique_ptr<BranchActivations> make_activations() const = 0;
  /// out = base + sign * f(x), f being all of the branch. x, base, out: (examples * length, d);
  /// out may be base.
  virtual void forward(Pass& pass, const BlockInputs& inputs, const Mat& x, const Mat& base,
                       float sign, BranchActivations& kept, BranchScratch& scratch,
                       Mat& out) const = 0;
  /// ADDS to dx the gradient of f(x), given that of the result, dout; the two may be one matrix.
  /// Adds the gradient of inputs.encoded to dencoded, which may be null if there is none.
  virtual void backward(Pass& pass, const BlockInputs& inputs, const Mat& x,
                        BranchActivations& kept, BranchScratch& scratch, const Mat& dout, Mat& dx,
                        Mat* dencoded) const = 0;
  /// FeedForward::selection_entropy of the last forward; NaN of branches that select nothing.
  virtual double selection_entropy(const BranchActivations& /*kept*/) const {
    return std::numeric_limits<double>::quiet_NaN();
  }
  /// What self-attention took and gave in the last forward; nulls of other branches. It is kept's.
  virtual AttentionView attention_of(const BranchActivations& /*kept*/) const { return {}; }
  /// FLOP of the matrix products of one example's forward, and floats that it keeps.
  virtual double forward_flops(const TrainSizes& sizes) const = 0;
  virtual double activation_floats(const TrainSizes& sizes) const = 0;
  /// Floats that each thread's buffers hold beside them, however many examples there are.
  virtual double thread_floats(const TrainSizes& /*sizes*/) const { return 0; }

  // -- a decode, one token of every sequence at a time --------------------------------------------

  /// At position 0.
  virtual std::unique_ptr<BranchState> make_state(const DecodeSizes& sizes) const = 0;
  /// Bytes of its caches.
  virtual std::uint64_t state_bytes(const DecodeSizes& sizes) const = 0;
  /// Back to position 0. Caches stay as they are: nothing reads beyond the current position.
  virtual void restart(BranchState& state) const = 0;
  /// Takes in the encoder's output (positions, d_model), the same for every sequence, if the branch
  /// attends to it. Executed by every thread of the team, with a barrier after each kMaxTokens
  /// rows.
  virtual void begin(const StepContext& /*ctx*/, BranchState& /*state*/, const Mat& /*encoded*/,
                     const StepBuffers& /*buffers*/) const {}
  /// Fills the first `length` cached positions with draws from the stream of that name and seed.
  /// Executed by every thread of the team.
  virtual void pretend(const StepContext& /*ctx*/, BranchState& /*state*/, std::int64_t /*length*/,
                       std::uint64_t /*seed*/, const std::string& /*stream*/) const {}
  /// Layer::reads_first of the layer that step begins with.
  virtual void reads_first(const StepContext& ctx, Ahead& ahead) const = 0;
  /// Floats of StepContext::workspace that step needs in a decode of these sizes.
  virtual std::int64_t workspace_floats(const DecodeSizes& sizes, int threads) const = 0;
  /// acc += f(x). Executed by every thread with equal values in streams of its own: adding and the
  /// norm are cheap enough to be done by all, and save two barriers. x, acc: (tokens, d_model), and
  /// may be one.
  virtual void step(const StepContext& ctx, BranchState& state, const float* x, float* acc,
                    const StepBuffers& buffers) const = 0;
  virtual PerPart<Cost> step_cost(const DecodeSizes& sizes) const = 0;
  /// FeedForward::touched_rows of the last step.
  virtual std::vector<std::int32_t> touched_rows(const BranchState& /*state*/) const { return {}; }
  /// FeedForward's, as the next two.
  virtual Choices choices() const { return {}; }
  virtual std::vector<std::int32_t> chosen(const BranchState& /*state*/) const { return {}; }
  virtual void replay(BranchState& /*state*/, const std::int32_t* /*chosen*/) const {}
};

// -- what branches share --------------------------------------------------------------------------

void prefix_names(Layer& layer, const std::string& prefix);
/// "decoder.1, what" of the prefix "decoder.1.".
std::string branch_name(const std::string& prefix, const char* what);
/// to += factor * more, of the same size, rows shared among the threads.
void add_to(Mat& to, const Mat& more, float factor = 1);
/// out = base + sign * dropout(y), or without the dropout if `dropout` is null. out may be base.
void add_branch(Pass& pass, Activations* dropout, DropoutMask masks, const Mat& y, const Mat& base,
                float sign, Mat& out);
/// The gradient of a branch's y, given that of its result; `buffer` holds it if it is another.
const Mat& branch_gradient(const Pass& pass, const Activations* dropout, DropoutMask masks,
                           const Mat& dout, Mat& buffer);
/// acc += y, in a decode step.
void add_step(const StepContext& ctx, const float* y, std::int64_t d, float* acc);

/// Phases are named after the part.
void set_cost(PerPart<Cost>& costs, BlockPart part, const Cost& cost);

/// What both attentions keep.
struct AttentionBranchActivations : BranchActivations {
  void for_each_decisions(const std::function<void(Decisions&)>& fn) override {
    fn(*projection);
    fn(*attention);
    fn(dropout);
  }
  Norm::Kept norm;
  Mat normed, o;
  std::unique_ptr<Activations> projection, attention;
  Activations dropout;
};

}  // namespace scaling
