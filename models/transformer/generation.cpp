// Steps of a decoder until a text has ended.
#include "models/transformer/generation.h"

#include <algorithm>
#include <cstddef>

#include "kernels/clock.h"

namespace scaling {

Generated continue_prompt(Decoder& decoder, const std::vector<int>& source,
                          const std::vector<int>& prompt, std::int64_t window,
                          const GenerationOptions& options) {
  Generated all;
  all.ids = prompt;
  std::vector<int> context = prompt, ids(1), next;
  while (all.sampled < options.tokens) {
    decoder.begin(source);
    ids[0] = 0;
    const auto given = std::int64_t(context.size());
    for (std::int64_t t = 0; t < window && all.sampled < options.tokens; ++t) {
      if (options.is_interrupted && options.is_interrupted()) return all;
      const StepTiming timing = decoder.step(ids, next, options.sampling);
      ids[0] = t < given ? context[std::size_t(t)] : next[0];
      if (t < given) continue;
      ++all.sampled;
      all.seconds += timing.token_seconds;
      if (ids[0] == kEndOfText) {
        all.has_ended = true;
        return all;
      }
      all.ids.push_back(ids[0]);
    }
    const auto kept = std::min(std::ptrdiff_t(all.ids.size()), std::ptrdiff_t(window / 2));
    context.assign(all.ids.end() - kept, all.ids.end());
  }
  return all;
}

Generated search_text(Decoder& decoder, const std::vector<int>& source,
                      const std::vector<int>& prompt, const GenerationOptions& options) {
  decoder.begin(source);
  DecoderNextToken model(decoder);
  const Clock::time_point start = Clock::now();
  const Hypothesis best = beam_search(model, prompt,
                                      {.length_penalty = options.length_penalty,
                                       .alpha = options.alpha,
                                       .max_length = options.tokens,
                                       .end = kEndOfText,
                                       .block_trigrams = options.block_trigrams,
                                       .is_interrupted = options.is_interrupted})
                              .front();
  // Of all steps behind the prompt, those too that looked for a better text and found none.
  const double all_seconds = seconds_since(start);
  const double read = double(prompt.size()) / double(decoder.position());
  Generated all;
  all.ids = prompt;
  all.ids.insert(all.ids.end(), best.ids.begin(), best.ids.end());
  if (best.has_ended) all.ids.pop_back();
  all.has_ended = best.has_ended;
  all.sampled = std::int64_t(best.ids.size());
  all.seconds = all_seconds * (1 - read);
  all.log_probability = best.log_probability;
  all.score = best.score;
  return all;
}

}  // namespace scaling
