// Bisection over d_ff: parameters and reads grow with it.
#include "experiments/training/matched_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

constexpr std::array<const char*, 4> kSolveNames = {"none", "match_parameters", "iso_read_ff",
                                                    "iso_read_model"};
// Far above any model's; only bounds the search.
constexpr std::int64_t kMostNeurons = std::int64_t(1) << 24;

using Measure = std::function<double(const ModelConfig&)>;

/// Shapes of one block stand for all.
Transformer shapes_of(ModelConfig config) {
  config.blocks = 1;
  return Transformer(std::move(config));
}

ModelConfig with_d_ff(ModelConfig config, std::int64_t d_ff) {
  config.d_ff = d_ff;
  return config;
}

/// d_ff among the multiples of `step` whose measure is nearest to the target.
std::int64_t nearest_d_ff(const ModelConfig& config, std::int64_t step, double target,
                          const Measure& measure) {
  std::int64_t low = 1, high = std::max<std::int64_t>(kMostNeurons / step, 2);
  // The smallest multiple whose measure reaches the target, or `high`.
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (measure(with_d_ff(config, middle * step)) < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 1) return step;
  const double above = measure(with_d_ff(config, low * step)) - target;
  const double below = target - measure(with_d_ff(config, (low - 1) * step));
  return (above <= below ? low : low - 1) * step;
}

double difference(double value, double target) { return (value - target) / target; }

std::string signed_percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.2f %%", 100 * share);
  return text;
}

const Traits& feed_forward_traits(const ModelConfig& config) {
  return chosen_entry(config, "feed_forward").traits;
}

void require_dense_feed_forward(const ModelConfig& config, Solve solve) {
  if (feed_forward_traits(config).is_dense) return;
  throw UserError(std::string("solve=") + name_of(solve) +
                  " makes a dense control, but feed_forward is '" + config.feed_forward +
                  "'; set feed_forward=dense");
}

}  // namespace

const char* name_of(Solve solve) { return kSolveNames[std::size_t(solve)]; }

Solve parse_solve(const std::string& name) {
  for (std::size_t i = 0; i < kSolveNames.size(); ++i) {
    if (name == kSolveNames[i]) return Solve(i);
  }
  throw UserError("'" + name +
                  "' is no value for 'solve'; known are: none, match_parameters, iso_read_ff, "
                  "iso_read_model");
}

std::int64_t parameters_of(const ModelConfig& config) {
  return shapes_of(config).parameter_count();
}

double feed_forward_reads(const ModelConfig& config) {
  validate(config);
  const auto layer = make_feed_forward(config);
  return total(layer->step_cost(1, WeightType::f32)).weights;
}

double model_reads(const ModelConfig& config) {
  return total(shapes_of(config).token_cost(1, 1, 1)).weights;
}

Solved match_parameters(const ModelConfig& variant, const ModelConfig& baseline) {
  const auto target = double(parameters_of(baseline));
  const Measure count = [](const ModelConfig& c) { return double(parameters_of(c)); };
  ModelConfig config = variant;
  const char* const divisor = feed_forward_traits(config).d_ff_multiple_of;
  std::int64_t asked = 1;
  if (divisor) parse_value(divisor, get_field(config, divisor), asked);
  if (asked < 1) validate(config);  // says what is wrong with it
  double nearest = std::numeric_limits<double>::infinity();
  for (std::int64_t step = asked; step >= 1; --step) {
    if (asked % step != 0) continue;
    if (divisor) {
      if (step == 1) break;  // would no longer be sparse
      set_field(config, divisor, step);
    }
    config.d_ff = nearest_d_ff(config, step, target, count);
    const double off = difference(count(config), target);
    if (std::abs(off) < std::abs(nearest)) nearest = off;
    if (std::abs(off) > kMatchTolerance) continue;
    Solved solved{config,
                  "d_ff " + std::to_string(config.d_ff) + ", parameters " + signed_percent(off)};
    if (step != asked) {
      solved.what += std::string(", ") + divisor + " " + std::to_string(step) + " in place of " +
                     std::to_string(asked) + ", whose step is too coarse";
    }
    return solved;
  }
  throw UserError("no d_ff brings the parameters within 0.5 % of the reference row's " +
                  std::to_string(std::int64_t(target)) + " (the nearest is off by " +
                  signed_percent(nearest) +
                  "); choose a smaller sparsity, d_lowrank or experts, or solve=none");
}

Solved match_feed_forward_reads(const ModelConfig& dense, const ModelConfig& sparse) {
  require_dense_feed_forward(dense, Solve::iso_read_ff);
  const double target = feed_forward_reads(sparse);
  Solved solved{with_d_ff(dense, nearest_d_ff(dense, 1, target, feed_forward_reads)), ""};
  const double reads = feed_forward_reads(solved.model);
  // One neuron more or less reads 2 d_model weights: the nearest is as equal as it gets.
  if (solved.model.d_ff == 1 && reads > (1 + kMatchTolerance) * target) {
    throw UserError("the reference row's feed-forward reads " +
                    std::to_string(std::int64_t(target)) +
                    " weights a token, less than one dense neuron; choose a smaller sparsity");
  }
  solved.what = "d_ff " + std::to_string(solved.model.d_ff) + ", feed-forward reads " +
                std::to_string(std::int64_t(reads)) + " weights a token (" +
                signed_percent(difference(reads, target)) + ")";
  return solved;
}

Solved match_model_reads(const ModelConfig& dense, const ModelConfig& sparse) {
  require_dense_feed_forward(dense, Solve::iso_read_model);
  const double target = model_reads(sparse);
  const double shape = double(dense.d_ff) / double(dense.d_model);
  Solved best;
  double best_distance = std::numeric_limits<double>::infinity(), best_reads = 0;
  for (std::int64_t d = dense.n_heads; d <= dense.d_model; d += dense.n_heads) {
    ModelConfig config = dense;
    config.d_model = d;
    config.d_ff = nearest_d_ff(config, 1, target, model_reads);
    const double reads = model_reads(config);
    if (std::abs(difference(reads, target)) > kMatchTolerance) continue;
    const double distance = std::abs(std::log(double(config.d_ff) / double(d) / shape));
    if (distance >= best_distance) continue;
    best_distance = distance;
    best_reads = reads;
    best.model = config;
  }
  if (!std::isfinite(best_distance)) {
    throw UserError("no d_model that is a multiple of n_heads " + std::to_string(dense.n_heads) +
                    " and at most " + std::to_string(dense.d_model) +
                    " lets a dense model read the reference row's " +
                    std::to_string(std::int64_t(target)) +
                    " weights a token within 0.5 %; choose fewer heads");
  }
  best.what = "d_model " + std::to_string(best.model.d_model) + ", d_ff " +
              std::to_string(best.model.d_ff) + ", the model reads " +
              std::to_string(std::int64_t(best_reads)) + " weights a token (" +
              signed_percent(difference(best_reads, target)) + ")";
  return best;
}

}  // namespace scaling
