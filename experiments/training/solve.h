// What is solved for in a curve's model, so that it may be compared with another row's.
#pragma once

#include <array>
#include <string>

#include "models/config.h"

namespace scaling {

/// The values of `solve`:
///   match_parameters: d_ff, so that the model's parameters equal the reference row's.
///   iso_read_ff:      d_ff of a dense feed-forward that reads as many weights a token as the
///                     reference row's feed-forward.
///   iso_read_model:   d_model and d_ff of a dense model that reads as many weights a token, all
///                     layers together, as the reference row's model.
///   none:             nothing: d_ff as it is written (the paper's own d_ff x 1.5, say).
enum class Solve { none, match_parameters, iso_read_ff, iso_read_model };
constexpr std::array<const char*, 4> names_of(Solve) {
  return {"none", "match_parameters", "iso_read_ff", "iso_read_model"};
}

/// Dense, and a control of what another row reads.
inline bool is_control(Solve solve) {
  return solve == Solve::iso_read_ff || solve == Solve::iso_read_model;
}

/// Gives the model the sizes that are solved for (models/transformer/matched_sizes.h); returns in
/// words what was chosen and how near it comes, nothing for none. Throws UserError if no sizes come
/// near enough and for a control whose feed-forward is not dense.
std::string solve_sizes(Solve solve, ModelConfig& model, const ModelConfig& reference);

}  // namespace scaling
