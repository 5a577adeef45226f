// From logits to ids: greedy or Gumbel sampling, the vocabulary shared among the threads.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layer.h"

namespace scaling {

class Sampler {
 public:
  Sampler(std::int64_t vocab_size, int tokens, int threads, std::uint64_t seed);
  /// Every thread of the team calls this with complete logits (tokens, vocab_size); a barrier is
  /// inside, and thread 0 has all ids in `next` on return. temperature 0: argmax, ties to the
  /// lowest id. Above 0: a draw from softmax(logits / temperature) that depends on seed, position
  /// and sequence only.
  void sample(const StepContext& ctx, const float* logits, float temperature, int* next);

 private:
  struct Best {
    float value;
    std::int64_t id;
  };
  std::int64_t vocab_size_;
  std::uint64_t seed_;
  std::vector<float> noisy_;  // (tokens, vocab_size)
  std::vector<Best> best_;    // (threads, kMaxTokens): a cache line and more for each thread
};

}  // namespace scaling
