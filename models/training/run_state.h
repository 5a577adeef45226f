// What a checkpoint says of its training run beside step and weights, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/train_config.h"

namespace scaling {

struct RunState {
  TrainConfig config;
  std::string tokenizer_model;  ///< SentencePiece file that the run used; empty: none
  std::string init;             ///< content_of the init_from that it started from; empty: none
  double seconds = 0;           ///< trained so far
  std::optional<double> best;   ///< lowest validation log-perplexity, nats a token, if evaluated
  /// Of those so far, with a loss above the run's plateau; none: not counted from the first on.
  std::optional<std::int64_t> plateau_steps;
};

/// One flat JSON object: every knob of the config by its name, then "seconds" and, where there is
/// one, "tokenizer_model", "init", "best" and "plateau_steps". All values are strings, so that
/// numbers come back exactly.
std::string to_json(const RunState& state);
/// The reverse; knobs that are not mentioned keep their defaults. Throws UserError if the text is
/// no such object or has an unknown knob.
RunState parse_run_state(const std::string& json);

}  // namespace scaling
