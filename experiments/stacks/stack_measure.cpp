// Heap counted by the C library, resident memory by the system, time by a clock around each step.
#include "experiments/stacks/stack_measure.h"

#include <cmath>
#include <list>

#include "experiments/instruments/interleave.h"
#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/gemm.h"
#include "kernels/random.h"
#include "kernels/team.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

constexpr float kDropout = 0.1f;
constexpr std::uint64_t kTokenStream = 1;

Batch random_batch(const ModelRow& row) {
  Batch batch;
  batch.examples = row.batch;
  batch.input_length = row.model.max_length;
  Rng ids(row.model.seed, kTokenStream);
  for (std::int64_t i = 0; i < batch.examples * batch.input_length; ++i) {
    batch.target.push_back(1 + int(ids.below(std::uint32_t(row.model.vocab_size - 1))));
  }
  shift_right(batch.target, batch.examples, batch.input);
  batch.weights.assign(batch.target.size(), 1.0f);
  return batch;
}

/// |g - h| / |h|, the gradients of two models with the same parameters.
double distance(Transformer& model, Transformer& reference) {
  const std::vector<Parameter*> own = model.parameters(), theirs = reference.parameters();
  SCALING_CHECK(own.size() == theirs.size());
  double square = 0, norm = 0;
  for (std::size_t p = 0; p < own.size(); ++p) {
    const Parameter &g = *own[p], &h = *theirs[p];
    SCALING_CHECK(g.name == h.name && g.count() == h.count());
    if (!h.gradient) continue;
    for (std::int64_t i = 0; i < h.count(); ++i) {
      const double apart = double(g.gradient[i]) - double(h.gradient[i]);
      square += apart * apart;
      norm += double(h.gradient[i]) * double(h.gradient[i]);
    }
  }
  return std::sqrt(square / norm);
}

/// A row in training, and what a pass over its batch keeps.
class Subject {
 public:
  Subject(const ModelRow& row, const std::string& gemm, int threads)
      : model(row.model), gemm_(find_gemm(gemm)), batch_(random_batch(row)) {
    {
      Team team(threads);
      model.allocate_for_training(team);
    }
    set_gemm_threads(threads);
    kept = model.make_activations();
  }

  /// Seconds of one forward and backward pass with dropout; `seed` is of its draws. Gradients are
  /// those of this pass alone.
  double step(int seed) {
    check_interrupt();
    model.zero_gradients();
    Pass pass{.gemm = gemm_, .training = true, .dropout = kDropout, .seed = std::uint64_t(seed)};
    const float scale = 1 / float(batch_.target.size());
    const Clock::time_point start = Clock::now();
    model.loss_and_gradients(pass, batch_, scale, *kept);
    return seconds_since(start);
  }

  Transformer model;
  std::unique_ptr<Transformer::Kept> kept;

 private:
  const Gemm& gemm_;
  Batch batch_;
};

}  // namespace

std::vector<Metric> measure_stack_memory(const ModelRow& row, const std::string& gemm,
                                         int threads) {
  Subject subject(row, gemm, threads);
  subject.step(1);
  const double after_first = heap_bytes();
  subject.step(2);
  const double after_second = heap_bytes(), peak = peak_memory();
  Stack::Kept& kept = subject.kept->decoder;
  const auto decisions = double(kept.decision_bytes());
  // What the stack kept is what is there no longer once it is gone.
  kept = {};
  const double stack = after_second - heap_bytes() - decisions;
  std::vector<Metric> bytes = {{"decision_bytes", "B", {decisions}},
                               {"model_bytes", "B", {2 * double(subject.model.held_bytes())}}};
  if (!std::isnan(peak)) bytes.push_back({"peak_memory_bytes", "B", {peak}});
  bytes.push_back({"second_pass_bytes", "B", {after_second - after_first}});
  bytes.push_back({"stack_bytes", "B", {stack}});
  return bytes;
}

std::vector<std::vector<double>> measure_stack_steps(const std::vector<ModelRow>& rows,
                                                     const std::string& gemm, int threads,
                                                     int repeats) {
  std::list<Subject> subjects;
  std::vector<Candidate> candidates;
  for (const ModelRow& row : rows) {
    Subject& own = subjects.emplace_back(row, gemm, threads);
    candidates.push_back({.name = row.name,
                          .trial =
                              [&own](int number) {
                                return Trial{{own.step(number + 1)}, {}};
                              },
                          .warm_up = [&own] { own.step(0); }});
  }
  const Protocol protocol{.least = repeats, .most = repeats, .seed = rows.front().model.seed};
  std::vector<std::vector<double>> seconds;
  for (const Trials& trials : interleave(candidates, protocol)) {
    seconds.push_back(trials.column(0));
  }
  return seconds;
}

std::vector<Metric> measure_stack_errors(const ModelRow& row, const ModelRow& reference,
                                         const std::string& gemm, int threads, int seeds) {
  Subject subject(row, gemm, threads), oracle(reference, gemm, threads);
  Metric reconstruction{"reconstruction_error", "1"}, gradient{"gradient_error", "1"};
  for (int seed = 1; seed <= seeds; ++seed) {
    subject.step(seed);
    oracle.step(seed);
    gradient.values.push_back(distance(subject.model, oracle.model));
    reconstruction.values.push_back(subject.kept->decoder.reconstruction_error());
  }
  return {reconstruction, gradient};
}

}  // namespace scaling
