// What belongs to no step: knobs, counts, and the predictor's seat in the tiles.
#include "models/layers/attention/sparsefinder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/check.h"
#include "models/config_checks.h"

namespace scaling {
namespace {

PatternCall call_of(std::int64_t length, bool causal) {
  return {.queries = length, .keys = length, .causal = causal};
}

[[noreturn]] void refuse_causal(const char* what) {
  throw UserError(
      std::string("attention sparsefinder_quantization cannot ") + what +
      ": who meets whom hangs on the ranks among all positions, the later ones too; take a task "
      "that is read from both sides (masked), sparsefinder_distance or sparsefinder_kmeans");
}

}  // namespace

void SparsefinderAttention::validate_knobs(const ModelConfig& config,
                                           const SparsefinderKnobs& knobs) {
  PatternAttention::validate(config);
  require_positive("sparsefinder_rank", knobs.sparsefinder_rank);
  require_not_negative("sparsefinder_global", knobs.sparsefinder_global);
  if (knobs.sparsefinder_rank > config.d_head()) {
    throw UserError("sparsefinder_rank " + std::to_string(knobs.sparsefinder_rank) +
                    " exceeds the width of a head, " + std::to_string(config.d_head()) +
                    ", of which it is a projection; give fewer dimensions, or fewer heads");
  }
  const std::int64_t width = knobs.sparsefinder_window;
  if (width < 0 || (width > 0 && width % 2 == 0)) {
    throw UserError("sparsefinder_window " + std::to_string(width) +
                    " is not an odd number, and a window reaches equally far before and after its "
                    "query; give one, or 0 for none");
  }
}

void SparsefinderAttention::shrink_knobs(ModelConfig& config) {
  set_field(config, "sparsefinder_rank", 2);
  set_field(config, "sparsefinder_window", 1);
  set_field(config, "sparsefinder_global", 0);
}

SparsefinderSizes SparsefinderAttention::sizes_of(const ModelConfig& config,
                                                  const SparsefinderKnobs& knobs) {
  return {config.n_heads, config.d_head(), knobs.sparsefinder_rank};
}

SparsefinderAttention::SparsefinderAttention(const ModelConfig& config,
                                             const SparsefinderKnobs& knobs,
                                             std::unique_ptr<SparsefinderPredictor> predictor)
    : predictor_(std::move(predictor)),
      additions_{.side = knobs.sparsefinder_window > 0 ? (knobs.sparsefinder_window - 1) / 2 : -1,
                 .globals = knobs.sparsefinder_global},
      tiles_{config.n_heads, config.d_head(), std::make_unique<AllKeys>(),
             make_normaliser(knobs.normaliser, knobs.entmax_alpha)} {
  tiles_.make_pairs = [this] { return predictor_->make_pairs(additions_); };
}

void SparsefinderAttention::visit_parameters(const ParameterVisitor& visit) {
  predictor_->visit_parameters(visit);
}

AttentionWork SparsefinderAttention::work(std::int64_t length, bool causal) const {
  const PatternCall call = call_of(length, causal);
  double pairs = 0, legal = 0;
  for (std::int64_t query = 0; query < length; ++query) {
    const double all = double(causal ? query + 1 : length);
    const double added = double(additions_.count(call, query));
    pairs += added + predictor_->share() * (all - added);
    legal += all;
  }
  const double heads = double(tiles_.heads);
  return {.pairs = heads * pairs,
          .choice = heads * (2 * double(length) * predictor_->place_flops() +
                             legal * predictor_->pair_flops())};
}

AttentionWork SparsefinderAttention::work_of(const Activations& kept, std::int64_t length,
                                             bool causal) const {
  AttentionWork counted = work(length, causal);
  counted.pairs = tiles_.pairs_met(kept);
  return counted;
}

double SparsefinderAttention::activation_floats() const {
  return tiles_.activation_floats() + 2 * double(tiles_.heads * predictor_->numbers());
}

/// A predictor's lists are of the order of what it decides.
double SparsefinderAttention::thread_floats(std::int64_t length) const {
  return tiles_.thread_floats(length, length) + 8 * double(length * predictor_->numbers());
}

void SparsefinderDistanceAttention::validate(const ModelConfig& config) {
  const auto knobs = config.options<SparsefinderDistanceKnobs>();
  validate_knobs(config, knobs);
  const double density = knobs.sparsefinder_density;
  if (!(density > 0 && density <= 1)) {
    throw UserError("sparsefinder_density " + print_value(density) +
                    " is not above 0 and at most 1, a share of all pairs; give one, such as 0.1");
  }
}

SparsefinderDistanceAttention::SparsefinderDistanceAttention(const ModelConfig& config)
    : SparsefinderAttention(
          config, config.options<SparsefinderDistanceKnobs>(),
          std::make_unique<DistancePredictor>(
              sizes_of(config, config.options<SparsefinderDistanceKnobs>()), config.seed,
              config.options<SparsefinderDistanceKnobs>().sparsefinder_density)) {}

void SparsefinderClusterAttention::validate(const ModelConfig& config) {
  const auto knobs = config.options<SparsefinderClusterKnobs>();
  validate_knobs(config, knobs);
  require_positive("sparsefinder_clusters", knobs.sparsefinder_clusters);
  require_positive("sparsefinder_nearest", knobs.sparsefinder_nearest);
  if (knobs.sparsefinder_clusters > config.max_length) {
    throw UserError("sparsefinder_clusters " + std::to_string(knobs.sparsefinder_clusters) +
                    " are more than the positions of max_length " +
                    std::to_string(config.max_length) + "; give fewer");
  }
  if (knobs.sparsefinder_nearest > knobs.sparsefinder_clusters) {
    throw UserError("sparsefinder_nearest " + std::to_string(knobs.sparsefinder_nearest) +
                    " exceeds sparsefinder_clusters " +
                    std::to_string(knobs.sparsefinder_clusters) +
                    ", and a position has no more centroids than there are; give fewer");
  }
}

void SparsefinderClusterAttention::shrink(ModelConfig& config) {
  shrink_knobs(config);
  set_field(config, "sparsefinder_clusters", 3);
  set_field(config, "sparsefinder_nearest", 1);
}

SparsefinderClusterAttention::SparsefinderClusterAttention(const ModelConfig& config)
    : SparsefinderAttention(
          config, config.options<SparsefinderClusterKnobs>(),
          std::make_unique<ClusterPredictor>(
              sizes_of(config, config.options<SparsefinderClusterKnobs>()), config.seed,
              config.options<SparsefinderClusterKnobs>().sparsefinder_clusters,
              config.options<SparsefinderClusterKnobs>().sparsefinder_nearest)) {}

void SparsefinderQuantizationAttention::validate(const ModelConfig& config) {
  const auto knobs = config.options<SparsefinderQuantizationKnobs>();
  validate_knobs(config, knobs);
  require_positive("sparsefinder_bins", knobs.sparsefinder_bins);
  if (knobs.sparsefinder_bins > config.max_length) {
    throw UserError("sparsefinder_bins " + std::to_string(knobs.sparsefinder_bins) +
                    " exceeds max_length " + std::to_string(config.max_length) +
                    ", and there are no more positions to fill them; give fewer");
  }
}

void SparsefinderQuantizationAttention::shrink(ModelConfig& config) {
  shrink_knobs(config);
  set_field(config, "sparsefinder_bins", 3);
}

SparsefinderQuantizationAttention::SparsefinderQuantizationAttention(const ModelConfig& config)
    : SparsefinderAttention(
          config, config.options<SparsefinderQuantizationKnobs>(),
          std::make_unique<QuantizationPredictor>(
              sizes_of(config, config.options<SparsefinderQuantizationKnobs>()), config.seed,
              config.options<SparsefinderQuantizationKnobs>().sparsefinder_bins)) {}

void SparsefinderQuantizationAttention::forward(Pass& pass, const Mat& q, const Mat& k,
                                                const Mat& v, const AttentionMask& mask,
                                                Activations& kept, Mat& o) const {
  if (mask.causal) refuse_causal("be causal");
  SparsefinderAttention::forward(pass, q, k, v, mask, kept, o);
}

std::unique_ptr<AttentionCache> SparsefinderQuantizationAttention::make_cache(int,
                                                                              std::int64_t) const {
  refuse_causal("decode");
}

}  // namespace scaling
