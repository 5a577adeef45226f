// Clocks around the attention component's forward and backward, heap counted by the C library.
#include "experiments/attention/core_measure.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "experiments/instruments/held_attention.h"
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
  Core(const CoreRow& row, const Gemm& gemm)
      : model_(row.model),
        mask_{.causal = row.causal},
        gemm_(gemm),
        attention_(model_),
        kept_(attention_->make_activations()) {}

  /// Seconds of a forward; in training, of its backward too.
  double run(Matrices& m, bool training) {
    check_interrupt();
    Pass pass{.gemm = gemm_, .training = training, .seed = model_.seed};
    const Clock::time_point start = Clock::now();
    // Queries stand for the layer's input where an attention projects some of it by itself.
    attention_->take_input(m.q, *kept_);
    attention_->forward(pass, m.q, m.k, m.v, mask_, *kept_, m.o);
    if (training) {
      attention_->backward(pass, m.q, m.k, m.v, mask_, *kept_, m.dout, m.dq, m.dk, m.dv);
      attention_->add_input_gradient(*kept_, m.dq);
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
    return attention_->work_of(*kept_, length, mask_.causal);
  }

 private:
  const ModelConfig model_;
  const AttentionMask mask_;
  const Gemm& gemm_;
  const HeldAttention attention_;
  std::unique_ptr<Activations> kept_;
};

/// Lets libraries take what they take once in a process, which is no row's.
void meet_libraries(const CoreRow& row, const Gemm& gemm, std::int64_t length) {
  Matrices few(row.model, std::min(length, kShortLength));
  Core core(row, gemm);
  core.run(few, /*training=*/false);
  core.run(few, /*training=*/true);
}

/// A row's first forward and first step.
CoreCost first_runs(const CoreRow& row, const Gemm& gemm, Core& core, Matrices& m) {
  CoreCost cost;
  // A core of its own: the step would find allocated what the forward has left, and not count it.
  cost.forward = Core(row, gemm).first_run(m, /*training=*/false);
  cost.step = core.first_run(m, /*training=*/true);
  const AttentionWork work = core.work(m.q.rows());
  cost.pairs = work.pairs;
  cost.forward.flops = work.forward_flops(row.model.d_head());
  cost.step.flops = work.step_flops(row.model.d_head());
  return cost;
}

double first_seconds(const CoreCost& cost) {
  return cost.forward.seconds.front() + cost.step.seconds.front();
}

/// Forwards and steps of the rows `which` in turn, until the setting's repeats or an equal share of
/// its seconds are reached.
void take_turns(const CoreSetting& setting, std::uint64_t seed, Matrices& m,
                const std::vector<std::size_t>& which,
                const std::vector<std::unique_ptr<Core>>& cores, std::vector<CoreCost>& costs) {
  std::vector<Candidate> candidates;
  for (const std::size_t row : which) {
    for (const bool training : {false, true}) {
      candidates.push_back({.name = training ? "step" : "forward",
                            .trial = [own = cores[row].get(), training, &m](int) {
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
    CoreCost& cost = costs[which[i / 2]];
    cost.warm = true;
    (i % 2 == 0 ? cost.forward : cost.step).seconds = trials[i].column(0);
  }
}

}  // namespace

std::vector<std::size_t> shortest_within(const std::vector<double>& each, double seconds) {
  std::vector<std::size_t> order(each.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&each](std::size_t a, std::size_t b) { return each[a] < each[b]; });
  std::size_t n = 0;
  for (double spent = 0; n < order.size(); ++n) {
    spent += each[order[n]];
    if (spent > seconds) break;
  }
  order.resize(n);
  return order;
}

double core_input_bytes(const ModelConfig& model, std::int64_t length) {
  return double(kMatrices) * double(length) * double(model.d_model) * sizeof(float);
}

CoreCosts measure_cores(const std::vector<CoreRow>& rows, const CoreSetting& setting) {
  use_one_heap();
  CoreCosts costs;
  costs.gemm_gflops = best_gemm_gflops(setting.gemm_size, setting.threads);
  set_gemm_threads(setting.threads);
  const Gemm& gemm = fastest_gemm(512, 512, 512);
  costs.gemm = gemm.name;
  const ModelConfig& first = rows.front().model;
  Matrices matrices(first, setting.length);
  for (const CoreRow& row : rows) meet_libraries(row, gemm, setting.length);
  std::vector<std::unique_ptr<Core>> cores;
  std::vector<double> seconds;
  for (const CoreRow& row : rows) {
    cores.push_back(std::make_unique<Core>(row, gemm));
    costs.rows.push_back(first_runs(row, gemm, *cores.back(), matrices));
    seconds.push_back(first_seconds(costs.rows.back()));
  }
  const std::vector<std::size_t> which = shortest_within(seconds, setting.seconds);
  if (!which.empty()) take_turns(setting, first.seed, matrices, which, cores, costs.rows);
  return costs;
}

}  // namespace scaling
