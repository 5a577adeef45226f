// Clocks around the attention component's forward and backward, heap counted by the C library.
#include "experiments/attention/core_measure.h"

#include <algorithm>
#include <memory>

#include "experiments/instruments/interleave.h"
#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
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
        kept_(attention_->make_activations()) {
    attention_->visit_parameters([&](Parameter& p) {
      throw UserError("attention " + model.attention + " has weights of its own (" + p.name +
                      "), and what is measured here are attentions without; choose another");
    });
  }

  /// Seconds of a forward; in training, of its backward too.
  double run(Matrices& m, bool training) {
    check_interrupt();
    Pass pass{.gemm = gemm_, .training = training, .seed = model_.seed};
    const AttentionMask mask{.causal = true};
    const Clock::time_point start = Clock::now();
    attention_->forward(pass, m.q, m.k, m.v, mask, *kept_, m.o);
    if (training) {
      attention_->backward(pass, m.q, m.k, m.v, mask, *kept_, m.dout, m.dq, m.dk, m.dv);
    }
    return seconds_since(start);
  }

  /// The first one, with its memory over what there was before.
  RunCost first_run(Matrices& m, bool training) {
    // Freed pages that are still resident, of products measured before, would hide growth.
    return_free_memory();
    reset_peak_memory();
    const double resident = peak_memory(), allocated = heap_bytes();
    const double seconds = run(m, training);
    return {.heap_bytes = heap_bytes() - allocated,
            .peak_bytes = std::max(0.0, peak_memory() - resident),
            .seconds = {seconds}};
  }

  /// Done by the last forward.
  AttentionWork work(std::int64_t length) const {
    return attention_->work_of(*kept_, length, /*causal=*/true);
  }

 private:
  const ModelConfig model_;
  const Gemm& gemm_;
  std::unique_ptr<SelfAttention> attention_;
  std::unique_ptr<Activations> kept_;
};

/// Lets libraries take what they take once in a process, which is no row's.
void meet_libraries(const ModelConfig& model, const Gemm& gemm, std::int64_t length) {
  Matrices few(model, std::min(length, kShortLength));
  Core core(model, gemm);
  core.run(few, /*training=*/false);
  core.run(few, /*training=*/true);
}

/// A row's first forward and first step.
CoreCost first_runs(const ModelConfig& model, const Gemm& gemm, Core& core, Matrices& m) {
  CoreCost cost;
  // A core of its own: the step would find allocated what the forward has left, and not count it.
  cost.forward = Core(model, gemm).first_run(m, /*training=*/false);
  cost.step = core.first_run(m, /*training=*/true);
  const AttentionWork work = core.work(m.q.rows());
  cost.forward.flops = work.forward_flops(model.d_head());
  cost.step.flops = work.step_flops(model.d_head());
  return cost;
}

/// Forwards and steps of all rows in turn, until the setting's repeats or an equal share of its
/// seconds are reached.
void take_turns(const CoreSetting& setting, std::uint64_t seed, Matrices& m,
                std::vector<std::unique_ptr<Core>>& cores, std::vector<CoreCost>& costs) {
  std::vector<Candidate> candidates;
  for (const auto& core : cores) {
    for (const bool training : {false, true}) {
      candidates.push_back(
          {.name = training ? "step" : "forward", .trial = [own = core.get(), training, &m](int) {
             return Trial{{own->run(m, training)}, {}};
           }});
    }
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
    (i % 2 == 0 ? cost.forward : cost.step).seconds = trials[i].column(0);
  }
}

}  // namespace

double core_input_bytes(const ModelConfig& model, std::int64_t length) {
  return double(kMatrices) * double(length) * double(model.d_model) * sizeof(float);
}

Settings attention_settings(const ModelConfig& model) {
  std::vector<std::string> knobs = {"d_model", "n_heads", "attention", "seed"};
  const std::vector<std::string> own = knobs_of_component("attention");
  knobs.insert(knobs.end(), own.begin(), own.end());
  Settings settings;
  for (const std::string& knob : knobs) settings.emplace_back(knob, get_field(model, knob));
  settings.emplace_back("causal", "true");
  return settings;
}

CoreCosts measure_cores(const std::vector<ModelConfig>& models, const CoreSetting& setting) {
  use_one_heap();
  CoreCosts costs;
  costs.gemm_gflops = best_gemm_gflops(setting.gemm_size, setting.threads);
  set_gemm_threads(setting.threads);
  const Gemm& gemm = find_gemm("auto");
  costs.gemm = gemm.name;
  Matrices matrices(models.front(), setting.length);
  for (const ModelConfig& model : models) meet_libraries(model, gemm, setting.length);
  std::vector<std::unique_ptr<Core>> cores;
  double seconds = 0;
  for (const ModelConfig& model : models) {
    cores.push_back(std::make_unique<Core>(model, gemm));
    costs.rows.push_back(first_runs(model, gemm, *cores.back(), matrices));
    seconds += costs.rows.back().forward.seconds.front() + costs.rows.back().step.seconds.front();
  }
  if (seconds <= setting.seconds) {
    take_turns(setting, models.front().seed, matrices, cores, costs.rows);
  }
  return costs;
}

}  // namespace scaling
