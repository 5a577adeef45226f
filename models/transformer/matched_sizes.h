// Sizes that make two models comparable: equally many parameters, or equally many weights read a
// token.
#pragma once

#include <cstdint>

#include "models/config.h"

namespace scaling {

/// Largest relative difference that counts as equal.
inline constexpr double kMatchTolerance = 0.005;

/// Parameters of the full model, frozen ones too.
std::int64_t parameters_of(const ModelConfig& config);
/// Weights that one token's feed-forward layer, or one token through the whole model, reads while
/// decoding (analytic; paper 1.2, 7.6).
double feed_forward_reads(const ModelConfig& config);
double model_reads(const ModelConfig& config);

/// A model, what was counted of it, and what that was to be.
struct MatchedSizes {
  ModelConfig model;
  double count = 0, target = 0;

  double difference() const { return (count - target) / target; }
  bool is_equal() const;
};

/// d_ff as a multiple of N (sparse) or of the experts, so that parameters are within
/// kMatchTolerance of the baseline's. Where that step is too coarse, the largest divisor of N (of
/// the experts) that comes near enough takes its place; the nearest if none does.
MatchedSizes match_parameters(const ModelConfig& variant, const ModelConfig& baseline);

/// `dense`, whose feed-forward is dense, with the d_ff that comes nearest: one neuron more or less
/// reads 2 d_model weights. Everything else stays.
MatchedSizes match_feed_forward_reads(const ModelConfig& dense, const ModelConfig& sparse);

/// `dense`, whose feed-forward is dense, made narrower: d_model becomes the multiple of n_heads
/// (d_head shrinks, heads stay) for which d_ff / d_model comes nearest to what it is in `dense`,
/// d_ff taking up the rest; layers, vocabulary and lengths stay. A count that is not finite if no
/// width comes within kMatchTolerance.
MatchedSizes match_model_reads(const ModelConfig& dense, const ModelConfig& sparse);

}  // namespace scaling
