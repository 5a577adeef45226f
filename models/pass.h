// What one forward or backward pass over a batch carries, beside the matrices themselves.
//
// Every matrix of a pass has one row a position, the positions of an example together, the examples
// one after another: rows = examples * length. Matrices and Activations are reused from step to
// step, so that a training step allocates nothing once the first has run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/random.h"
#include "models/matrix.h"

namespace scaling {

class AttentionGraphs;

/// Whether every position draws a dropout mask, or an example one for all its positions.
enum class DropoutMask { per_position, per_example };

struct Pass {
  const Gemm& gemm;
  /// Sequences in the batch, each of rows / examples positions.
  std::int64_t examples = 1;
  /// true: dropout, selection noise, soft selections (paper 1.2); false: evaluation.
  bool training = false;
  float dropout = 0;  ///< rate of every dropout
  /// Share of training calls of selecting layers that select hard; negative: each layer's own.
  double hard_share = -1;
  /// true, in training: a sparse feed-forward computes all its neurons, and chooses none.
  bool all_neurons = false;
  /// Draws of this pass depend on the seed and on the order in which layers ask for a stream.
  std::uint64_t seed = 0;
  std::uint64_t streams = 0;  ///< handed out so far
  /// What gradients of the loss are multiplied with (see Transformer::loss_and_gradients).
  float loss_scale = 0;
  /// What layers add to the loss: a forward in training, unless it is computed again, adds its sum
  /// over all positions, in nats; its backward adds loss_scale times the gradient of that.
  double extra_loss = 0;
  /// true: a forward is computed again (of a reversible block): streams and discrete decisions are
  /// taken from its Activations instead of made anew.
  bool recomputes = false;
  /// Then: the streams of the earlier forward, but decisions made anew.
  bool reselects = false;
  /// Positions of an example start at 0 with this probability in training, else at an offset drawn
  /// from [0, position_offsets) (paper 4.7).
  float start_from_zero = 1;
  std::int64_t position_offsets = 0;
  /// Of each further token's loss against that of the one before (ModelConfig::future_tokens).
  float future_weight = 1;
  /// Token of every row, for layers that choose by token; may be null if none does.
  const int* ids = nullptr;
  /// Not null, in an evaluation: leaves out pairs of the decoder's self-attentions, which are of
  /// the pattern `full`. Of examples that are passed one at a time.
  AttentionGraphs* graphs = nullptr;
  std::int64_t attentions = 0;  ///< that have asked it so far

  std::int64_t length(const Mat& x) const { return x.rows() / examples; }
  bool drops() const { return training && dropout > 0; }
  bool recalls_decisions() const { return recomputes && !reselects; }
  /// Where the dropout mask of a row of x begins in its stream.
  std::int64_t mask_begin(const Mat& x, DropoutMask masks, std::int64_t row) const {
    return (masks == DropoutMask::per_position ? row : row / length(x)) * x.cols();
  }
  /// What elements that dropout keeps are multiplied with.
  float kept_scale() const { return 1 / (1 - dropout); }
  std::uint64_t new_stream() { return streams++; }
  /// Four draws for one index of a stream.
  std::array<std::uint32_t, 4> draws(std::uint64_t stream, std::uint64_t index) const {
    return random_bits(seed, stream, index);
  }
};

/// For forward of one sequence, or of several if examples is set.
inline Pass evaluation_pass() { return Pass{.gemm = find_gemm("eigen")}; }

/// What a forward that is computed again must find as it was (paper 5.3).
struct Decisions {
  std::uint64_t stream = 0;  ///< of this call's draws
  bool is_hard = true;       ///< whether this call of a selecting layer selects hard
  /// Neurons, experts or buckets, as the layer says; empty if it chooses nothing.
  std::vector<std::int32_t> chosen;
};

/// What a layer's forward keeps for its backward, and the buffers that both reuse. One object for
/// each place of a layer in the model, or for several places whose forwards are computed again
/// before their backwards: then the decisions of each are stored elsewhere in between.
struct Activations : Decisions {
  virtual ~Activations() = default;
  /// To be called once at the start of a forward that draws.
  void take_stream(Pass& pass) {
    if (!pass.recomputes) stream = pass.new_stream();
  }
};

}  // namespace scaling
