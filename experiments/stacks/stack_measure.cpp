// Heap counted by the C library, resident memory by the system, time by a clock around each step.
#include "experiments/stacks/stack_measure.h"

#include <chrono>
#include <cmath>

#include "experiments/instruments/interleave.h"
#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/random.h"
#include "kernels/team.h"

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

}  // namespace

StackSubject::StackSubject(const ModelRow& row, const StackSetting& setting)
    : model(row.model), gemm_(find_gemm(setting.gemm)), batch_(random_batch(row)) {
  {
    Team team(setting.threads);
    model.allocate_for_training(team);
  }
  set_gemm_threads(setting.threads);
  kept = model.make_activations();
}

double StackSubject::step(std::uint64_t seed) {
  check_interrupt();
  model.zero_gradients();
  Pass pass{.gemm = gemm_, .training = true, .dropout = kDropout, .seed = seed};
  const float scale = 1 / float(batch_.target.size());
  const auto start = std::chrono::steady_clock::now();
  model.loss_and_gradients(pass, batch_, scale, *kept);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

StackMemory measure_stack_memory(const ModelRow& row, const StackSetting& setting) {
  StackSubject subject(row, setting);
  subject.step(1);
  const double after_first = heap_bytes();
  subject.step(2);
  const double after_second = heap_bytes();
  StackMemory memory;
  memory.peak_memory_bytes = peak_memory();
  memory.model_bytes = 2 * double(subject.model.held_bytes());
  memory.second_pass_bytes = after_second - after_first;
  memory.decision_bytes = double(subject.kept->decoder.decision_bytes());
  // What the stack kept is what is there no longer once it is gone.
  subject.kept->decoder = Stack::Kept{};
  memory.stack_bytes = after_second - heap_bytes() - memory.decision_bytes;
  return memory;
}

StackSteps measure_stack_steps(const std::vector<ModelRow>& rows, const StackSetting& setting,
                               int repeats) {
  std::vector<std::unique_ptr<StackSubject>> subjects;
  std::vector<Candidate> candidates;
  StackSteps steps;
  for (const ModelRow& row : rows) {
    subjects.push_back(std::make_unique<StackSubject>(row, setting));
    StackSubject* const own = subjects.back().get();
    steps.flops.push_back(own->model.training_flops(row.batch, 0, row.model.max_length));
    candidates.push_back({.name = row.name,
                          .trial =
                              [own](int number) {
                                return Trial{{own->step(std::uint64_t(number) + 1)}, {}};
                              },
                          .warm_up = [own] { own->step(0); }});
  }
  const Protocol protocol{.least = repeats, .most = repeats, .seed = rows.front().model.seed};
  for (const Trials& trials : interleave(candidates, protocol)) {
    steps.seconds.emplace_back();
    for (const Sample& sample : trials.kept) steps.seconds.back().push_back(sample.column(0));
  }
  return steps;
}

StackErrors measure_stack_errors(const ModelRow& row, const ModelRow& reference,
                                 const StackSetting& setting, int seeds) {
  StackSubject subject(row, setting), oracle(reference, setting);
  StackErrors errors;
  for (int seed = 1; seed <= seeds; ++seed) {
    subject.step(std::uint64_t(seed));
    oracle.step(std::uint64_t(seed));
    errors.gradient.push_back(distance(subject.model, oracle.model));
    errors.reconstruction.push_back(subject.kept->decoder.reconstruction_error());
  }
  return errors;
}

}  // namespace scaling
