// Clocks around the attentions of all layers, one after another.
#include "experiments/sparsefinder/teacher_cores.h"

#include <algorithm>
#include <utility>

#include "experiments/study/interrupt.h"
#include "kernels/clock.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "models/initialize.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

constexpr const char* kKernels = "simd";

void draw(Mat& to, const char* stream, const TeacherPlan& plan) {
  const Initializer of_variance_1 = {Initializer::Kind::uniform, 1.732f};
  to.resize(plan.length(), plan.model().d_model);
  draw_values(plan.model().seed, stream, of_variance_1, 0, to.size(), to.data());
}

/// What the names of an attention's parameters begin with; i: of the attentions of all blocks.
std::string prefix_of(const ModelConfig& model, std::int64_t i) {
  const std::int64_t number = i % model.attention_layers + 1;
  return "decoder." + std::to_string(i / model.attention_layers) + ".attention" +
         (number == 1 ? "" : std::to_string(number)) + ".";
}

}  // namespace

CoreInputs::CoreInputs(const TeacherPlan& of, std::vector<SequenceHeads> all)
    : plan(of), sequences(std::move(all)) {
  draw(values, "values", plan);
  draw(gradients, "gradients", plan);
}

TeacherCores::TeacherCores(const ModelConfig& model, const std::string& weights,
                           const CoreInputs& inputs, Team& team)
    : model_(model),
      inputs_(inputs),
      team_(team),
      kernels_(find_kernel_set(kKernels)),
      gemm_(fastest_gemm(512, 512, 512)) {
  const bool decodes =
      inputs.plan.causal() &&
      chosen_attentions(model, /*in_encoder=*/false).front().entry->traits.step != StepIs::none;
  std::int64_t floats = 0;
  for (std::int64_t i = 0; i < model.decoder_layers * model.attention_layers; ++i) {
    if (weights.empty()) {
      attentions_.emplace_back(model);
    } else {
      attentions_.emplace_back(model, weights, prefix_of(model, i));
    }
    const SelfAttention& own = attentions_.back().layer();
    kept_.push_back(own.make_activations());
    if (decodes) caches_.push_back(own.make_cache(1, inputs.plan.length()));
    floats = std::max(floats, own.workspace_floats(1, team.threads()));
  }
  workspace_.resize(std::size_t(floats));
  for (Mat* m : {&o_, &dq_, &dk_, &dv_}) m->resize(inputs.plan.length(), model.d_model);
}

Pass TeacherCores::make_pass(bool training) const {
  return {.gemm = gemm_, .training = training, .seed = model_.seed};
}

void TeacherCores::forward(Pass& pass, const SequenceHeads& sequence, std::size_t layer) {
  attentions_[layer]->forward(pass, sequence.q[layer], sequence.k[layer], inputs_.values,
                              {.causal = inputs_.plan.causal()}, *kept_[layer], o_);
}

double TeacherCores::sparsity() {
  const auto n = double(inputs_.plan.length());
  const double legal = inputs_.plan.causal() ? n * (n + 1) / 2 : n * n;
  double pairs = 0, all = 0;
  for (const SequenceHeads& sequence : inputs_.sequences) {
    for (std::size_t layer = 0; layer < attentions_.size(); ++layer) {
      Pass evaluation = make_pass(/*training=*/false);
      forward(evaluation, sequence, layer);
      pairs += attentions_[layer]
                   ->work_of(*kept_[layer], inputs_.plan.length(), inputs_.plan.causal())
                   .pairs;
      all += legal * double(model_.n_heads);
    }
  }
  return 1 - pairs / all;
}

double TeacherCores::pass_all(bool training) {
  Pass own = make_pass(training);
  const Clock::time_point start = Clock::now();
  for (const SequenceHeads& sequence : inputs_.sequences) {
    for (std::size_t layer = 0; layer < attentions_.size(); ++layer) {
      forward(own, sequence, layer);
      if (!training) continue;
      attentions_[layer]->backward(own, sequence.q[layer], sequence.k[layer], inputs_.values,
                                   {.causal = inputs_.plan.causal()}, *kept_[layer],
                                   inputs_.gradients, dq_, dk_, dv_);
    }
  }
  return seconds_since(start);
}

StepContext TeacherCores::at(int thread, std::int64_t position) {
  return {.kernels = kernels_,
          .barrier = team_.barrier(),
          .thread = thread,
          .threads = team_.threads(),
          .tokens = 1,
          .position = position,
          .workspace = workspace_.data()};
}

double TeacherCores::decode_all() {
  double seconds = 0;
  team_.run([&](int thread) {
    at(thread, 0).sync();
    const Clock::time_point start = Clock::now();
    for (const SequenceHeads& sequence : inputs_.sequences) {
      for (std::int64_t i = 0; i < inputs_.plan.length(); ++i) {
        const StepContext ctx = at(thread, i);
        for (std::size_t layer = 0; layer < attentions_.size(); ++layer) {
          attentions_[layer]->step(ctx, *caches_[layer], sequence.q[layer].row(i).data(),
                                   sequence.k[layer].row(i).data(), inputs_.values.row(i).data(),
                                   o_.row(i).data());
        }
      }
    }
    if (thread == 0) seconds = seconds_since(start);
  });
  return seconds;
}

Trial TeacherCores::run() {
  check_interrupt();
  const double tokens = double(inputs_.sequences.size()) * double(inputs_.plan.length());
  Columns columns(kCoreColumns);
  columns[kForwardTime] = 1e6 * pass_all(/*training=*/false) / tokens;
  columns[kTrainTime] = 1e6 * pass_all(/*training=*/true) / tokens;
  if (decodes()) columns[kDecodeTime] = 1e6 * decode_all() / tokens;
  return {std::move(columns), {}};
}

Candidate TeacherCores::candidate(const std::string& name) {
  return {.name = name, .trial = [this](int) { return run(); }, .warm_up = [this] { run(); }};
}

}  // namespace scaling
