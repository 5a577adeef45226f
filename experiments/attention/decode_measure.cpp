// Clocks around SelfAttention::step.
#include "experiments/attention/decode_measure.h"

#include <string>
#include <utility>

#include "experiments/study/interrupt.h"
#include "experiments/study/statistics.h"
#include "kernels/ceilings.h"
#include "kernels/clock.h"
#include "models/initialize.h"

namespace scaling {

DecodeCore::DecodeCore(const ModelConfig& model, std::int64_t context, const KernelSet& kernels,
                       Team& team, const ColdMemory& elsewhere)
    : context_(context), kernels_(kernels), team_(team), elsewhere_(elsewhere), attention_(model) {
  require_memory(cache_bytes(), "the cache of " + std::to_string(context) + " positions",
                 "take fewer (--contexts)");
  cache_ = attention_->make_cache(1, capacity(context));
  const Initializer inputs = {Initializer::Kind::uniform, 1.732f};  // of variance 1
  std::int64_t from = 0;
  for (std::vector<float>* x : {&q_, &k_, &v_, &o_}) {
    x->resize(std::size_t(model.d_model));
    draw_values(model.seed, "inputs", inputs, from, model.d_model, x->data());
    from += model.d_model;
  }
  workspace_.resize(std::size_t(attention_->workspace_floats(1, team.threads())));
  team.run([&](int thread) { cache_->pretend(at(thread, 0), context, model.seed, "pretended"); });
}

StepContext DecodeCore::at(int thread, std::int64_t position) {
  return {.kernels = kernels_,
          .barrier = team_.barrier(),
          .thread = thread,
          .threads = team_.threads(),
          .tokens = 1,
          .position = position,
          .workspace = workspace_.data()};
}

/// Seconds, of thread 0 from a meeting of all to the next.
double DecodeCore::step(std::int64_t position) {
  double seconds = 0;
  team_.run([&](int thread) {
    const StepContext ctx = at(thread, position);
    ctx.sync();
    const Clock::time_point start = Clock::now();
    attention_->step(ctx, *cache_, q_.data(), k_.data(), v_.data(), o_.data());
    if (thread == 0) seconds = seconds_since(start);
  });
  return seconds;
}

Trial DecodeCore::decode() {
  std::vector<double> seconds, rates;
  for (int i = 0; i < kUntimedSteps + kTimedSteps; ++i) {
    check_interrupt();
    const double rate = elsewhere_.sweep();
    const double taken = step(context_ + i);
    if (i < kUntimedSteps) continue;
    seconds.push_back(taken);
    rates.push_back(rate);
  }
  Columns columns(kColumns);
  columns[kStepSeconds] = quantile(std::move(seconds), 0.5);
  columns[kReadRate] = quantile(std::move(rates), 0.5);
  columns[kProductRate] = measure_product_rate(team_, kernels_, WeightType::f32);
  return {std::move(columns), {}};
}

Candidate DecodeCore::candidate(const std::string& name) {
  return {.name = name,
          .trial = [this](int) { return decode(); },
          .ceilings =
              [this] {
                return Ceilings{elsewhere_.sweep(),
                                measure_product_rate(team_, kernels_, WeightType::f32)};
              }};
}

Cost DecodeCore::cost() const {
  return attention_->step_cost_of(*cache_, 1, context_ + kUntimedSteps + kTimedSteps / 2 + 1);
}

}  // namespace scaling
