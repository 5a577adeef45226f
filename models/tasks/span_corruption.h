// The denoising task: spans of a text are taken out and have to be told (paper 9.1). Each
// document is cut into chunks of at most `length` tokens, each corrupted anew in every epoch; what
// exceeds length or target_length is cut off.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/random.h"
#include "models/tasks/task.h"

namespace scaling {

struct SpanCounts {
  std::int64_t noise;  ///< tokens taken out
  std::int64_t spans;  ///< that they make up
};

/// The paper's, and the most: a kept token before each span of three.
inline constexpr double kNoiseDensity = 0.15, kMostNoiseDensity = 0.75;

/// noise = density * n, half to even, within [1, n - 1]; spans of three tokens in the mean, as many
/// as have a kept token before them. n >= 2, density <= kMostNoiseDensity.
SpanCounts span_counts(std::int64_t n, double density = kNoiseDensity);

/// n as a sum of `parts` positive numbers, every such sum equally likely. 1 <= parts <= n.
void random_composition(std::int64_t n, std::int64_t parts, Rng& rng, std::vector<int>& out);

struct CorruptedText {
  std::vector<int> input;   ///< the text with every noise span replaced by a sentinel, then EOS 1
  std::vector<int> target;  ///< sentinel, noise span, sentinel, noise span ..., then EOS 1
  std::vector<char> taken;  ///< of each target: is it a token of the text?
  std::vector<int> kept_lengths, noise_lengths;  ///< of the spans, kept first
};

/// ids: n >= 2 tokens. The k-th sentinel (1, 2, ...) is vocab_size - k; it may be an ordinary
/// token's id as well. For 512 tokens: 77 noise tokens, 26 spans, input 462, target 104.
void corrupt_spans(const int* ids, std::int64_t n, std::int64_t vocab_size, Rng& rng,
                   CorruptedText& out, double density = kNoiseDensity);

/// Only the spans' own text counts as bytes: ends and sentinels belong to the task.
Needs needs_of_span_corruption(const TrainConfig& config);
std::unique_ptr<Task> make_span_corruption(const TrainConfig& config, std::int64_t vocab_size,
                                           std::unique_ptr<TextStore> text);

}  // namespace scaling
