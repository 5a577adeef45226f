// What a model reaches that knows how often each token comes, and nothing of what goes before it.
#pragma once

#include <cstdint>

#include "models/tasks/task.h"

namespace scaling {

/// Weighted training targets that are counted.
inline constexpr std::int64_t kUnigramTokens = std::int64_t(1) << 20;

/// Cross-entropy, nats a weighted target token, of the first validation set under the distribution
/// (count + 1) / (all + vocab_size) of the task's training targets: counts are those of its first
/// batches, whatever steps a run has, until they hold kUnigramTokens targets. A curve stands on the
/// unigram plateau while its loss is above this.
double unigram_entropy(const Task& task, std::int64_t vocab_size);

}  // namespace scaling
