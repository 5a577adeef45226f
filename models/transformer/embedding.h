// From ids to the residual stream: a token's row plus its position's row (paper 4.7, 7.1).
#pragma once

#include <cstdint>
#include <vector>

#include "models/parameter.h"
#include "models/pass.h"
#include "models/transformer/positions.h"

namespace scaling {

struct EmbeddingKept {
  Activations tokens, features;                   ///< streams of the two dropouts
  Activations start;                              ///< stream of the starts, where they are drawn
  DropoutMask masks = DropoutMask::per_position;  ///< of `tokens`
  // Of a table, alike for the batch.
  Mat mask;                ///< (1, d): dropout of its features
  std::int64_t first = 0;  ///< row of the first position
  // Of fixed_base in training.
  struct Start {
    std::int64_t first = 0;  ///< number of the first position
    bool has_digits = true;  ///< not, once in a hundred: nothing but what marks the first position
  };
  std::vector<Start> starts;  ///< one a sequence
};

/// x = dropout(tokens[id]) + positions(first + t), (ids.size(), d) with rows as models/pass.h says.
/// The dropout has the masks that kept says. Of a table of positions, another drops features for
/// the whole batch. `first` is 0 but where a training pass has position_offsets. Ids are clipped to
/// the table of tokens. Of `streams` sequences each an example's begin alike. Throws UserError if
/// the sequences end behind what positions there are.
void embed(Pass& pass, const Parameter& tokens, const PositionVectors& positions,
           const std::vector<int>& ids, EmbeddingKept& kept, Mat& x, std::int64_t streams = 1);
/// Adds to the gradients of both, each sum in one order; dx is spoilt.
void embed_backward(const Pass& pass, const Parameter& tokens, const PositionVectors& positions,
                    const std::vector<int>& ids, const EmbeddingKept& kept, Mat& dx);
/// A row of the same in evaluation: a token at a position of its sequence, the first being 0.
void embed_one(const Parameter& tokens, const PositionVectors& positions, int id,
               std::int64_t position, float* to);

}  // namespace scaling
