// From ids to the residual stream: a token's row plus its position's row (paper 4.7, 7.1).
#pragma once

#include <cstdint>
#include <vector>

#include "models/parameter.h"
#include "models/pass.h"

namespace scaling {

struct EmbeddingKept {
  Activations tokens, features;                   ///< streams of the two dropouts
  Activations start;                              ///< stream of `first`, where it is drawn
  DropoutMask masks = DropoutMask::per_position;  ///< of `tokens`
  Mat mask;                ///< (1, d): dropout of the positional rows, alike for the batch
  std::int64_t first = 0;  ///< positional row of the first position, alike for the batch
};

/// x = dropout(tokens[id]) + dropout(positions[first + t]), (ids.size(), d) with rows as
/// models/pass.h says. The first dropout has the masks that kept says; the second drops features of
/// the positional table for the whole batch. `first` is 0 but where a training pass has
/// position_offsets. Ids are clipped to the table. Throws UserError if the sequences end behind the
/// table of positions.
void embed(Pass& pass, const Parameter& tokens, const Parameter& positions,
           const std::vector<int>& ids, EmbeddingKept& kept, Mat& x);
/// Adds to the gradients of both tables, each sum in one order; dx is spoilt.
void embed_backward(const Pass& pass, const Parameter& tokens, const Parameter& positions,
                    const std::vector<int>& ids, const EmbeddingKept& kept, Mat& dx);

}  // namespace scaling
