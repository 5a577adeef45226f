// Matched sizes in words.
#include "experiments/training/solve.h"

#include <cstdio>

#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "models/transformer/matched_sizes.h"

namespace scaling {
namespace {

std::string signed_percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.2f %%", 100 * share);
  return text;
}

std::string whole(double count) { return std::to_string(std::int64_t(count)); }

std::string parameters_text(const MatchedSizes& found, const ModelConfig& asked) {
  const std::string off = signed_percent(found.difference());
  if (!found.is_equal()) {
    throw UserError("no d_ff brings the parameters within 0.5 % of the reference row's " +
                    whole(found.target) + " (the nearest is off by " + off +
                    "); choose a smaller sparsity, d_lowrank or experts, or solve=none");
  }
  std::string text = "d_ff " + std::to_string(found.model.d_ff) + ", parameters " + off;
  const char* const divisor = chosen_entry(asked, "feed_forward").traits.d_ff_multiple_of;
  if (divisor && get_field(found.model, divisor) != get_field(asked, divisor)) {
    text += std::string(", ") + divisor + " " + get_field(found.model, divisor) + " in place of " +
            get_field(asked, divisor) + ", whose step is too coarse";
  }
  return text;
}

std::string reads_text(const MatchedSizes& found) {
  return whole(found.count) + " weights a token (" + signed_percent(found.difference()) + ")";
}

std::string feed_forward_text(const MatchedSizes& found) {
  if (found.model.d_ff == 1 && found.difference() > kMatchTolerance) {
    throw UserError("the reference row's feed-forward reads " + whole(found.target) +
                    " weights a token, less than one dense neuron; choose a smaller sparsity");
  }
  return "d_ff " + std::to_string(found.model.d_ff) + ", feed-forward reads " + reads_text(found);
}

std::string model_text(const MatchedSizes& found, const ModelConfig& asked) {
  if (!found.is_equal()) {
    throw UserError("no d_model that is a multiple of n_heads " + std::to_string(asked.n_heads) +
                    " and at most " + std::to_string(asked.d_model) +
                    " lets a dense model read the reference row's " + whole(found.target) +
                    " weights a token within 0.5 %; choose fewer heads");
  }
  return "d_model " + std::to_string(found.model.d_model) + ", d_ff " +
         std::to_string(found.model.d_ff) + ", the model reads " + reads_text(found);
}

}  // namespace

std::string solve_sizes(Solve solve, ModelConfig& model, const ModelConfig& reference) {
  if (solve == Solve::none) return "";
  if (is_control(solve) && !chosen_entry(model, "feed_forward").traits.is_dense) {
    throw UserError("solve=" + print_value(solve) +
                    " makes a dense control, but feed_forward is '" + model.feed_forward +
                    "'; set feed_forward=dense");
  }
  MatchedSizes found;
  std::string text;
  if (solve == Solve::match_parameters) {
    found = match_parameters(model, reference);
    text = parameters_text(found, model);
  } else if (solve == Solve::iso_read_ff) {
    found = match_feed_forward_reads(model, reference);
    text = feed_forward_text(found);
  } else {
    found = match_model_reads(model, reference);
    text = model_text(found, model);
  }
  model = found.model;
  return text;
}

}  // namespace scaling
