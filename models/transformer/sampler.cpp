// Each thread finds the best of its share of ids; thread 0 compares the threads' bests.
#include "models/transformer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/random.h"

namespace scaling {
namespace {

constexpr std::uint64_t kSamplingStream =
    0x73616d706c65;  // unlike any parameter's: those are hashes of names

/// logits / temperature + Gumbel noise for ids in [share.begin, share.end); begin is a multiple of
/// four.
void add_noise(const float* logits, float temperature, std::uint64_t seed, std::uint64_t stream,
               Range share, float* noisy) {
  for (std::int64_t id = share.begin; id < share.end; id += 4) {
    const auto bits = random_bits(seed, stream, std::uint64_t(id / 4));
    for (std::int64_t j = 0; j < 4 && id + j < share.end; ++j) {
      const float gumbel = -std::log(-std::log(unit_float(bits[std::size_t(j)])));
      noisy[id + j] = logits[id + j] / temperature + gumbel;
    }
  }
}

}  // namespace

Sampler::Sampler(std::int64_t vocab_size, int tokens, int threads, std::uint64_t seed)
    : vocab_size_(vocab_size),
      seed_(seed),
      noisy_(std::size_t(tokens * vocab_size)),
      best_(std::size_t(threads * kMaxTokens)) {}

std::int64_t Sampler::best_of(const float* logits, const float* noisy, int most) {
  ids_.resize(std::size_t(vocab_size_));
  std::iota(ids_.begin(), ids_.end(), 0);
  const auto end = ids_.begin() + std::min<std::int64_t>(most, vocab_size_);
  std::partial_sort(ids_.begin(), end, ids_.end(), [logits](std::int32_t a, std::int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  return *std::max_element(ids_.begin(), end,
                           [noisy](std::int32_t a, std::int32_t b) { return noisy[a] < noisy[b]; });
}

void Sampler::sample(const StepContext& ctx, const float* logits, Sampling how, int* next) {
  const Range share = ctx.share(vocab_size_, 16);
  for (int t = 0; t < ctx.tokens; ++t) {
    const float* values = logits + t * vocab_size_;
    if (how.temperature > 0 && share.size() > 0) {
      float* noisy = noisy_.data() + t * vocab_size_;
      const std::uint64_t stream =
          kSamplingStream +
          (std::uint64_t(ctx.position) * kMaxTokens + std::uint64_t(t)) * 0x9E3779B97F4A7C15u;
      add_noise(values, how.temperature, seed_, stream, share, noisy);
      values = noisy;
    }
    Best& best = best_[std::size_t(ctx.thread) * kMaxTokens + std::size_t(t)];
    best.id = -1;
    if (share.size() == 0) continue;
    best.id = share.begin + ctx.kernels.argmax(values + share.begin, share.size());
    best.value = values[best.id];
  }
  ctx.sync();
  if (ctx.thread != 0) return;
  for (int t = 0; t < ctx.tokens; ++t) {
    if (how.temperature > 0 && how.top_k > 0) {
      const std::int64_t row = t * vocab_size_;
      next[t] = int(best_of(logits + row, noisy_.data() + row, how.top_k));
      continue;
    }
    Best best{0, -1};
    for (int thread = 0; thread < ctx.threads; ++thread) {
      const Best& other = best_[std::size_t(thread) * kMaxTokens + std::size_t(t)];
      if (other.id >= 0 && (best.id < 0 || other.value > best.value)) best = other;
    }
    next[t] = int(best.id);
  }
}

}  // namespace scaling
