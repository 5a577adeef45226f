// Sequences that a model is trained or evaluated on together.
#pragma once

#include <cstdint>
#include <vector>

namespace scaling {

/// Examples padded with id 0 to common lengths; row-major (examples, length).
struct Batch {
  std::int64_t examples = 0;
  std::int64_t source_length = 0;  ///< 0: decoder-only
  std::int64_t target_length = 0;
  std::vector<int> source;  ///< encoder input
  std::vector<int> target;  ///< what the decoder has to predict; it reads it shifted right by one 0
  std::vector<float> weights;  ///< of the target positions: 1, or 0 for padding
  double bytes = 0;            ///< of text that the weighted targets stand for
};

}  // namespace scaling
