// Sizes that make two models comparable: equally many parameters, or equally many weights read a
// token.
#pragma once

#include <cstdint>
#include <string>

#include "models/config.h"

namespace scaling {

/// What is solved for in a curve's model.
///   match_parameters: d_ff, so that the model's parameters equal the reference row's.
///   iso_read_ff:      d_ff of a dense feed-forward that reads as many weights a token as the
///                     reference row's feed-forward.
///   iso_read_model:   d_model and d_ff of a dense model that reads as many weights a token, all
///                     layers together, as the reference row's model.
///   none:             nothing: d_ff as it is written (the paper's own d_ff x 1.5, say).
enum class Solve { none, match_parameters, iso_read_ff, iso_read_model };
const char* name_of(Solve solve);
/// Throws UserError listing the known names.
Solve parse_solve(const std::string& name);

/// Largest relative difference that counts as equal.
inline constexpr double kMatchTolerance = 0.005;

struct Solved {
  ModelConfig model;
  std::string what;  ///< for people: what was chosen, how near it comes
};

/// Parameters of the full model, frozen ones too.
std::int64_t parameters_of(const ModelConfig& config);
/// Weights that one token's feed-forward layer, or one token through the whole model, reads while
/// decoding (analytic; paper 1.2, 7.6).
double feed_forward_reads(const ModelConfig& config);
double model_reads(const ModelConfig& config);

/// d_ff as a multiple of N (sparse) or of the experts, so that parameters are within
/// kMatchTolerance of the baseline's. Where that step is too coarse, the largest divisor of N (of
/// the experts) that comes near enough takes its place, and `what` says so. Throws UserError if
/// none does.
Solved match_parameters(const ModelConfig& variant, const ModelConfig& baseline);

/// `dense` with another d_ff; everything else stays. Throws UserError if its feed-forward is not
/// dense or if even one neuron reads more.
Solved match_feed_forward_reads(const ModelConfig& dense, const ModelConfig& sparse);

/// `dense` made narrower: d_model becomes the multiple of n_heads (d_head shrinks, heads stay) for
/// which d_ff / d_model comes nearest to what it is in `dense`, d_ff taking up the rest; layers,
/// vocabulary and lengths stay. Throws UserError if there is no such width.
Solved match_model_reads(const ModelConfig& dense, const ModelConfig& sparse);

}  // namespace scaling
