// Bisection over d_ff: parameters and reads grow with it.
#include "models/transformer/matched_sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "models/layers/catalog.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

// Far above any model's; only bounds the search.
constexpr std::int64_t kMostNeurons = std::int64_t(1) << 24;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

using Measure = std::function<double(const ModelConfig&)>;

/// Shapes of as many blocks as differ stand for all.
Transformer shapes_of(ModelConfig config) {
  config.blocks = attentions_in_turn(config);
  return Transformer(std::move(config));
}

ModelConfig with_d_ff(ModelConfig config, std::int64_t d_ff) {
  config.d_ff = d_ff;
  return config;
}

/// With d_ff among the multiples of `step` whose measure is nearest to the target.
MatchedSizes nearest_d_ff(const ModelConfig& config, std::int64_t step, double target,
                          const Measure& measure) {
  const auto sizes_at = [&](std::int64_t multiple) {
    ModelConfig found = with_d_ff(config, multiple * step);
    const double count = measure(found);
    return MatchedSizes{std::move(found), count, target};
  };
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
  MatchedSizes above = sizes_at(low);
  if (low == 1) return above;
  MatchedSizes below = sizes_at(low - 1);
  return above.count - target <= target - below.count ? above : below;
}

}  // namespace

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

bool MatchedSizes::is_equal() const { return std::abs(difference()) <= kMatchTolerance; }

MatchedSizes match_parameters(const ModelConfig& variant, const ModelConfig& baseline) {
  const auto target = double(parameters_of(baseline));
  const Measure count = [](const ModelConfig& c) { return double(parameters_of(c)); };
  const char* const divisor = chosen_entry(variant, "feed_forward").traits.d_ff_multiple_of;
  std::int64_t asked = 1;
  if (divisor) parse_value(divisor, get_field(variant, divisor), asked);
  if (asked < 1) validate(variant);  // says what is wrong with it
  MatchedSizes nearest{variant, kInfinite, target};
  // A step of one neuron would no longer be sparse.
  for (std::int64_t step = asked; step >= (divisor ? 2 : 1) && !nearest.is_equal(); --step) {
    if (asked % step != 0) continue;
    ModelConfig config = variant;
    if (divisor) set_field(config, divisor, step);
    const MatchedSizes found = nearest_d_ff(config, step, target, count);
    if (std::abs(found.difference()) < std::abs(nearest.difference())) nearest = found;
  }
  return nearest;
}

MatchedSizes match_feed_forward_reads(const ModelConfig& dense, const ModelConfig& sparse) {
  return nearest_d_ff(dense, 1, feed_forward_reads(sparse), feed_forward_reads);
}

MatchedSizes match_model_reads(const ModelConfig& dense, const ModelConfig& sparse) {
  const double target = model_reads(sparse);
  const double shape = double(dense.d_ff) / double(dense.d_model);
  MatchedSizes best{dense, kInfinite, target};
  double best_distance = kInfinite;
  for (std::int64_t d = dense.n_heads; d <= dense.d_model; d += dense.n_heads) {
    ModelConfig config = dense;
    config.d_model = d;
    const MatchedSizes found = nearest_d_ff(config, 1, target, model_reads);
    const double distance = std::abs(std::log(double(found.model.d_ff) / double(d) / shape));
    if (!found.is_equal() || distance >= best_distance) continue;
    best_distance = distance;
    best = found;
  }
  return best;
}

}  // namespace scaling
