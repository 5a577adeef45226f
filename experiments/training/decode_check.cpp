// The same examples by two programs: a batch's forward, and a decoder's steps.
#include "experiments/training/decode_check.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "models/transformer/copy_weights.h"
#include "models/transformer/decoder.h"

namespace scaling {
namespace {

/// The numbers of one example.
template <class T>
std::vector<T> row_of(const std::vector<T>& all, std::int64_t row, std::int64_t length) {
  const auto first = all.begin() + std::ptrdiff_t(row * length);
  return {first, first + std::ptrdiff_t(length)};
}

void keep_first(std::int64_t examples, Batch& batch) {
  batch.examples = examples;
  batch.source.resize(std::size_t(examples * batch.source_length));
  batch.input.resize(std::size_t(examples * batch.input_length));
  batch.target.resize(batch.input.size());
  batch.weights.resize(batch.input.size());
}

/// Whole examples; tokens 0: all.
std::vector<Batch> first_examples(const Task& task, std::int64_t tokens) {
  std::vector<Batch> batches;
  double left = tokens > 0 ? double(tokens) : std::numeric_limits<double>::infinity();
  for (std::int64_t index = 0; index < task.validation_batches() && left > 0; ++index) {
    Batch& batch = batches.emplace_back();
    task.validation_batch(0, index, batch);
    std::int64_t examples = 0;
    for (; examples < batch.examples && left > 0; ++examples) {
      const std::vector<float> weights = row_of(batch.weights, examples, batch.input_length);
      left -= std::accumulate(weights.begin(), weights.end(), 0.0);
    }
    keep_first(examples, batch);
  }
  return batches;
}

CrossEntropy evaluated(const Transformer& model, const Gemm& gemm,
                       const std::vector<Batch>& batches) {
  const std::unique_ptr<Transformer::Kept> kept = model.make_activations();
  CrossEntropy sum;
  for (const Batch& batch : batches) {
    Pass pass{.gemm = gemm};
    const CrossEntropy one = model.loss_of(pass, batch, *kept);
    sum.loss += one.loss;
    sum.weight += one.weight;
  }
  return sum;
}

CrossEntropy decoded(const Transformer& model, const KernelSet& kernels, Team& team,
                     const std::vector<Batch>& batches) {
  CrossEntropy sum;
  std::vector<int> shifted;
  for (const Batch& batch : batches) {
    // A decoder is fed with the targets.
    shift_right(batch.target, batch.examples, shifted);
    SCALING_CHECK(batch.causal && batch.input == shifted);
    Decoder decoder(model, kernels, team, 1, batch.input_length, batch.source_length);
    for (std::int64_t row = 0; row < batch.examples; ++row) {
      check_interrupt();
      std::vector<int> target = row_of(batch.target, row, batch.input_length);
      std::vector<float> weights = row_of(batch.weights, row, batch.input_length);
      // Nothing that is asked depends on what comes behind it.
      while (!weights.empty() && weights.back() == 0) weights.pop_back();
      target.resize(weights.size());
      if (target.empty()) continue;
      const CrossEntropy one = decode_cross_entropy(
          decoder, row_of(batch.source, row, batch.source_length), target, weights);
      sum.loss += one.loss;
      sum.weight += one.weight;
    }
  }
  return sum;
}

/// Of whole examples without padding, as many as a trace holds, all as long as the first.
SelectionTrace traced(const Transformer& model, const KernelSet& kernels, Team& team,
                      const std::vector<Batch>& batches) {
  SelectionTrace trace;
  std::vector<int> next;
  for (const Batch& batch : batches) {
    if (trace.examples > 0 && batch.input_length != trace.positions) continue;
    Decoder decoder(model, kernels, team, 1, batch.input_length, batch.source_length);
    const std::vector<Choices> choices = decoder.choices();
    trace.blocks = std::int64_t(choices.size());
    trace.choices = choices.front();
    for (const Choices& one : choices) {
      if (one != trace.choices || one.count == 0 || one.options > kMostTraceOptions) return {};
    }
    trace.positions = batch.input_length;
    const std::int64_t bytes = trace.positions * trace.blocks * trace.choices.count;
    for (std::int64_t row = 0; row < batch.examples; ++row) {
      if ((trace.examples + 1) * bytes > kMostTraceBytes) return trace;
      const std::vector<float> weights = row_of(batch.weights, row, batch.input_length);
      if (std::count(weights.begin(), weights.end(), 0.0f) > 0) continue;
      decoder.begin(row_of(batch.source, row, batch.source_length));
      for (const int id : row_of(batch.input, row, batch.input_length)) {
        decoder.step({id}, next);
        for (const std::vector<std::int32_t>& block : decoder.chosen()) {
          trace.chosen.insert(trace.chosen.end(), block.begin(), block.end());
        }
      }
      ++trace.examples;
    }
  }
  return trace;
}

}  // namespace

void require_decodable(const Curve& curve) {
  if (needs_of(curve.train).causal) return;
  throw UserError("row '" + curve.name + "': task " + curve.train.task +
                  " reads texts from both sides, and no decode does; drop --decode_check, or name "
                  "other rows with --rows");
}

DecodeCheck check_decode(Transformer& trained, const Task& task, const Gemm& gemm, int threads,
                         std::int64_t tokens) {
  const std::vector<Batch> batches = first_examples(task, tokens);
  const CrossEntropy expected = evaluated(trained, gemm, batches);
  SCALING_CHECK(expected.weight > 0);
  DecodeCheck found;
  std::vector<Metric>& metrics = found.metrics;
  metrics = {{"decode_tokens", "tokens", {expected.weight}},
             {"decode_reference_log_perplexity", "nats/token", {expected.loss / expected.weight}}};
  Team team(threads);
  for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
    ModelConfig config = trained.config();
    config.weight_type = type;
    Transformer model(config);
    model.allocate(team, simd_kernels().dense_layout(type));
    copy_weights(trained, model);
    const std::string name = std::string("decode_log_perplexity.") + name_of(type);
    const auto add = [&](const std::string& metric, const KernelSet& kernels) {
      const CrossEntropy sum = decoded(model, kernels, team, batches);
      SCALING_CHECK(sum.weight == expected.weight);
      metrics.push_back({metric, "nats/token", {sum.loss / sum.weight}});
    };
    add(name, find_kernel_set("simd"));
    if (type == WeightType::f32) {
      found.trace = traced(model, find_kernel_set("simd"), team, batches);
    }
    const KernelSet* rounding = bf16_dot_kernels();
    if (type == WeightType::bf16 && rounding) add(name + "_dot", *rounding);
  }
  return found;
}

}  // namespace scaling
