// Clocks around the attention component's forward and backward, heap counted by the C library.
#include "experiments/attention/core_measure.h"

#include <algorithm>
#include <memory>

#include "experiments/instruments/interleave.h"
#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "kernels/clock.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "kernels/parallel.h"
#include "kernels/random.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

constexpr int kMatrices = 8;
/// Enough for every product to be asked for once.
constexpr std::int64_t kShortLength = 256;

/// Inputs of variance 1, outputs of the same size.
struct Matrices {
  Mat q, k, v, dout, o, dq, dk, dv;

  Matrices(const ModelConfig& model, std::int64_t length) {
    std::uint64_t stream = 0;
    for (Mat* m : {&q, &k, &v, &dout, &o, &dq, &dk, &dv}) {
      m->resize(length, model.d_model);
      ++stream;
      parallel_for(length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          Rng random(model.seed, (stream << 32) + std::uint64_t(row));
          for (float& x : m->row(row)) x = random.uniform(-1.732f, 1.732f);
        }
      });
    }
  }
};

/// The attention of one row.
class Core {
 public:
  Core(const ModelConfig& model, const Gemm& gemm)
      : model_(model),
        gemm_(gemm),
        attention_(make_self_attention(model)),
        kept_(attention_->make_activations()) {}

  double forward_seconds(Matrices& m) {
    check_interrupt();
    Pass pass{.gemm = gemm_, .seed = model_.seed};
    const auto start = Clock::now();
    attention_->forward(pass, m.q, m.k, m.v, {.causal = true}, *kept_, m.o);
    return seconds_since(start);
  }

  double step_seconds(Matrices& m) {
    check_interrupt();
    Pass pass{.gemm = gemm_, .training = true, .seed = model_.seed};
    const AttentionMask mask{.causal = true};
    const auto start = Clock::now();
    attention_->forward(pass, m.q, m.k, m.v, mask, *kept_, m.o);
    attention_->backward(pass, m.q, m.k, m.v, mask, *kept_, m.dout, m.dq, m.dk, m.dv);
    return seconds_since(start);
  }

  /// Those of the last forward, as CoreCost says.
  void count_flops(std::int64_t length, CoreCost* cost) const {
    const AttentionWork work = attention_->work_of(*kept_, length, /*causal=*/true);
    cost->forward_flops = work.forward_flops(model_.d_head());
    cost->step_flops = work.step_flops(model_.d_head());
  }

 private:
  const ModelConfig model_;
  const Gemm& gemm_;
  std::unique_ptr<SelfAttention> attention_;
  std::unique_ptr<Activations> kept_;
};

/// Seconds of a run; what it leaves allocated and the most that was resident in it, both over what
/// there was before.
template <class Run>
double measured_run(const Run& run, double* heap, double* peak) {
  // Freed pages that are still resident, of products measured before, would hide growth.
  return_free_memory();
  reset_peak_memory();
  const double resident = peak_memory(), allocated = heap_bytes();
  const double seconds = run();
  *heap = heap_bytes() - allocated;
  *peak = std::max(0.0, peak_memory() - resident);
  return seconds;
}

/// Lets libraries take what they take once in a process, which is no row's.
void meet_libraries(const ModelConfig& model, const Gemm& gemm, std::int64_t length) {
  Matrices few(model, std::min(length, kShortLength));
  Core core(model, gemm);
  core.forward_seconds(few);
  core.step_seconds(few);
}

/// Notes the memory of a row's first forward and first step, and their seconds.
void first_runs(const ModelConfig& model, const Gemm& gemm, Core& core, Matrices& m,
                CoreCost* cost) {
  {
    // A core of its own: the step would find allocated what the forward has left, and not count it.
    Core evaluated(model, gemm);
    cost->forward_seconds = {measured_run([&] { return evaluated.forward_seconds(m); },
                                          &cost->forward_heap_bytes, &cost->forward_peak_bytes)};
  }
  cost->step_seconds = {
      measured_run([&] { return core.step_seconds(m); }, &cost->heap_bytes, &cost->peak_bytes)};
  core.count_flops(m.q.rows(), cost);
}

/// Forwards and steps of all rows in turn, until the setting's repeats or an equal share of its
/// seconds are reached.
void take_turns(const CoreSetting& setting, std::uint64_t seed, Matrices& m,
                std::vector<std::unique_ptr<Core>>& cores, std::vector<CoreCost>& costs) {
  std::vector<Candidate> candidates;
  for (const auto& core : cores) {
    Core* const own = core.get();
    candidates.push_back({.name = "forward", .trial = [own, &m](int) {
                            return Trial{{own->forward_seconds(m)}, {}};
                          }});
    candidates.push_back({.name = "step", .trial = [own, &m](int) {
                            return Trial{{own->step_seconds(m)}, {}};
                          }});
  }
  const Protocol protocol{.least = 1,
                          .most = setting.repeats,
                          .budget_seconds = setting.seconds / double(candidates.size()),
                          .precision = -1,
                          .seed = seed};
  const std::vector<Trials> trials = interleave(candidates, protocol);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    CoreCost& cost = costs[i / 2];
    cost.warm = true;
    std::vector<double>& seconds = i % 2 == 0 ? cost.forward_seconds : cost.step_seconds;
    seconds.clear();
    for (const Sample& sample : trials[i].kept) seconds.push_back(sample.column(0));
  }
}

}  // namespace

double core_input_bytes(const ModelConfig& model, std::int64_t length) {
  return double(kMatrices) * double(length) * double(model.d_model) * sizeof(float);
}

CoreCosts measure_cores(const std::vector<ModelConfig>& models, const CoreSetting& setting) {
  use_one_heap();
  CoreCosts costs;
  costs.gemm_gflops = best_gemm_gflops(setting.gemm_size, setting.threads);
  set_gemm_threads(setting.threads);
  const Gemm& gemm = find_gemm("auto");
  costs.gemm = gemm.name;
  costs.rows.resize(models.size());
  Matrices matrices(models.front(), setting.length);
  for (const ModelConfig& model : models) meet_libraries(model, gemm, setting.length);
  std::vector<std::unique_ptr<Core>> cores;
  double seconds = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    cores.push_back(std::make_unique<Core>(models[i], gemm));
    CoreCost& cost = costs.rows[i];
    first_runs(models[i], gemm, *cores[i], matrices, &cost);
    seconds += cost.forward_seconds.front() + cost.step_seconds.front();
  }
  if (seconds <= setting.seconds) {
    take_turns(setting, models.front().seed, matrices, cores, costs.rows);
  }
  return costs;
}

}  // namespace scaling
