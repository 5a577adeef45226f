// From logits to ids: greedy or Gumbel sampling, the vocabulary shared among the threads.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layer.h"

namespace scaling {

/// How a token is taken from its logits.
struct Sampling {
  float temperature = 0;  ///< 0: the likeliest, of equal ones the lowest id
  int top_k = 0;          ///< above 0: only so many of the likeliest may be drawn
};

class Sampler {
 public:
  Sampler(std::int64_t vocab_size, int tokens, int threads, std::uint64_t seed);
  /// Every thread of the team calls this with complete logits (tokens, vocab_size); a barrier is
  /// inside, and thread 0 has all ids in `next` on return. A draw is from softmax(logits /
  /// temperature), of the top_k likeliest made to sum to 1, and depends on seed, position and
  /// sequence only.
  void sample(const StepContext& ctx, const float* logits, Sampling how, int* next);

 private:
  struct Best {
    float value;
    std::int64_t id;
  };
  /// Of the most likely `most` the id whose noisy value is the largest.
  std::int64_t best_of(const float* logits, const float* noisy, int most);

  std::int64_t vocab_size_;
  std::uint64_t seed_;
  std::vector<float> noisy_;       // (tokens, vocab_size)
  std::vector<Best> best_;         // (threads, kMaxTokens): a cache line and more for each thread
  std::vector<std::int32_t> ids_;  // of the vocabulary, where top_k orders them
};

}  // namespace scaling
