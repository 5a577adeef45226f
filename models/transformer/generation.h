// One text from a model through the decode path: token after token, or by beam search.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "models/transformer/beam_search.h"
#include "models/transformer/decoder.h"

namespace scaling {

/// Token after which a text is over.
inline constexpr int kEndOfText = 1;

struct GenerationOptions {
  std::int64_t tokens = 100;  ///< after the prompt, at most, the end included
  Sampling sampling;          ///< of texts that are not searched for
  /// Of beam search; as in BeamOptions.
  LengthPenalty length_penalty = LengthPenalty::none;
  double alpha = 0.6;
  bool block_trigrams = false;
  /// Asked before each further token; true cuts the text off. Null: nobody asks.
  std::function<bool()> is_interrupted = {};
};

struct Generated {
  std::vector<int> ids;                   ///< the prompt's first; without the end
  bool has_ended = false;                 ///< else it was cut off
  std::int64_t sampled = 0;               ///< tokens after the prompt, the end included
  double seconds = 0;                     ///< of the decoder's steps for them
  double log_probability = 0, score = 0;  ///< of a beam search
};

/// Token after token, in windows of `window` positions: when one is full, the next starts from the
/// later half of its text. decoder: of one sequence, with room for a window; source: of its
/// source_length, empty if decoder-only.
Generated continue_prompt(Decoder& decoder, const std::vector<int>& source,
                          const std::vector<int>& prompt, std::int64_t window,
                          const GenerationOptions& options);

/// The best text of a beam search by as many hypotheses as the decoder has sequences.
Generated search_text(Decoder& decoder, const std::vector<int>& source,
                      const std::vector<int>& prompt, const GenerationOptions& options);

}  // namespace scaling
