// What layers with a trained selection share: noisy choices and softmax over blocks of logits, and
// the draw between hard and soft calls (paper 1.2, 1.3).
#pragma once

#include <cstdint>

#include "models/knobs.h"
#include "models/matrix.h"
#include "models/pass.h"

namespace scaling {

/// Knobs of layers that select in training.
struct SelectionKnobs {
  double selection_noise =
      -1;  // tau of the training noise; < 0: 0.1, moe_block 0.7 (paper 1.2, 1.3)
  double hard_probability = -1;  // of a hard selection in training; < 0: 0.3, moe_block 0.5
  double selection_balance = 0, selection_entropy = 0;  // of selection_loss.h

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("selection_noise", k.selection_noise,
          "tau: scale of the Gumbel noise on selections in training; negative: 0.1, moe_block 0.7");
    visit("hard_probability", k.hard_probability,
          "share of training calls with a hard selection; negative: 0.3, moe_block 0.5");
    visit("selection_balance", k.selection_balance,
          "weight of a term of the training loss that spreads selections evenly (Switch: 0.01)");
    visit("selection_entropy", k.selection_entropy,
          "weight of the entropy of selections in the training loss: positive makes them certain");
  }
  /// Throws UserError.
  void validate() const;
};

/// Logits of a position: `blocks` blocks of `n`, one entry of each to be chosen.
struct Blocks {
  std::int64_t blocks, n;
  std::int64_t size() const { return blocks * n; }
};

/// Whether this call of a layer selects hard: one draw of the stream, true with this probability or
/// with Pass::hard_share, if there is one.
bool draw_hard_call(const Pass& pass, std::uint64_t stream, double probability);

/// chosen[b] = first of the largest logits of block b.
void choose_largest(Blocks shape, const float* logits, std::int32_t* chosen);
/// Subtracts from every block its largest logit, which changes neither its softmax nor what is
/// drawn.
void subtract_largest(Blocks shape, float* logits);
/// chosen[b] = argmax(logits + tau * Gumbel noise) of block b, drawn as what it is equivalent to:
/// one draw from softmax(logits / tau), for an n-th of the random numbers. logits: after
/// subtract_largest; tau > 0; row: position within the pass; scratch: shape.size() floats.
void choose_noisily(const Pass& pass, std::uint64_t stream, std::int64_t row, Blocks shape,
                    double tau, const float* logits, float* scratch, std::int32_t* chosen);
/// Softmax of every block in place. logits: after subtract_largest.
void softmax_of_blocks(Blocks shape, float* logits);
/// The gradient p dp of every block, p its softmax, becomes that of its logits: p dp - p sum(p dp).
void softmax_of_blocks_backward(Blocks shape, const float* p, float* dz);

/// Mean over positions and blocks, nats, of probabilities or else of the softmax of logits.
double mean_entropy(Blocks shape, const Mat& rows, bool are_probabilities);

}  // namespace scaling
