// Counts of targets, and the held-out targets by them.
#include "models/tasks/unigram.h"

#include <cmath>
#include <vector>

#include "kernels/check.h"

namespace scaling {
namespace {

/// counts[id] += weight of every target. Returns their sum.
double add_targets(const Batch& batch, std::vector<double>& counts) {
  double all = 0;
  for (std::size_t i = 0; i < batch.target.size(); ++i) {
    const double weight = double(batch.weights[i]);
    counts[std::size_t(batch.target[i])] += weight;
    all += weight;
  }
  return all;
}

}  // namespace

double unigram_entropy(const Task& task, std::int64_t vocab_size) {
  std::vector<double> trained(std::size_t(vocab_size), 1.0), held_out(trained.size(), 0.0);
  Batch batch;
  double counted = 0;
  for (std::int64_t step = 0; counted < double(kUnigramTokens); ++step) {
    task.train_batch(step, 0, 1, batch);
    const double more = add_targets(batch, trained);
    SCALING_CHECK(more > 0);
    counted += more;
  }
  double all = 0, loss = 0;
  for (std::int64_t index = 0; index < task.validation_batches(); ++index) {
    task.validation_batch(0, index, batch);
    all += add_targets(batch, held_out);
  }
  SCALING_CHECK(all > 0);
  const double sum = counted + double(vocab_size);
  for (std::size_t id = 0; id < trained.size(); ++id) {
    loss -= held_out[id] * std::log(trained[id] / sum);
  }
  return loss / all;
}

}  // namespace scaling
