// Sequences that a model is trained or evaluated on together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scaling {

/// Examples padded with id 0 to common lengths; row-major (examples, length).
struct Batch {
  std::int64_t examples = 0;
  std::int64_t source_length = 0;  ///< 0: decoder-only
  std::int64_t input_length = 0;   ///< of input, target and weights alike
  std::vector<int> source;         ///< encoder input
  std::vector<int> input;          ///< what the decoder reads
  /// Whether attention sees of the input only the position at hand and those before it, or all of
  /// the example (convolutions and recurrences look back in any case).
  bool causal = true;
  std::vector<int> target;     ///< what it has to predict at each position of its input
  std::vector<float> weights;  ///< of the targets: 1, or 0 where nothing is asked
  double bytes = 0;            ///< of text that the weighted targets stand for
};

/// Each example one position later, after a 0; the last id of each is left out. Input of a decoder
/// that predicts every target from those before it.
void shift_right(const std::vector<int>& ids, std::int64_t examples, std::vector<int>& shifted);
/// The same of one example, into as many ids.
void shift_right(std::span<const int> ids, std::span<int> shifted);

}  // namespace scaling
