// Numbers travel as text, so that they come back exactly.
#include "models/training/run_state.h"

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/check.h"
#include "models/knobs.h"

namespace scaling {
namespace {

constexpr const char* kTokenizerModel = "tokenizer_model";
constexpr const char* kInit = "init";
constexpr const char* kSeconds = "seconds";
constexpr const char* kBest = "best";
constexpr const char* kPlateauSteps = "plateau_steps";

}  // namespace

std::string to_json(const RunState& state) {
  nlohmann::ordered_json json;
  for (const std::string& name : train_field_names()) json[name] = get_field(state.config, name);
  if (!state.tokenizer_model.empty()) json[kTokenizerModel] = state.tokenizer_model;
  if (!state.init.empty()) json[kInit] = state.init;
  json[kSeconds] = print_value(state.seconds);
  if (state.best) json[kBest] = print_value(*state.best);
  if (state.plateau_steps) json[kPlateauSteps] = print_value(*state.plateau_steps);
  // A path need not be UTF-8.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

RunState parse_run_state(const std::string& text) {
  const auto refuse = [&text] {
    throw UserError("the training state '" + text +
                    "' is no flat JSON object of strings; use the program that wrote it");
  };
  RunState state;
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    if (!json.is_object()) refuse();
    for (const auto& [name, value] : json.items()) {
      const auto words = value.get<std::string>();
      if (name == kTokenizerModel) {
        state.tokenizer_model = words;
      } else if (name == kInit) {
        state.init = words;
      } else if (name == kSeconds) {
        parse_value(name, words, state.seconds);
      } else if (name == kBest) {
        parse_value(name, words, state.best.emplace());
      } else if (name == kPlateauSteps) {
        parse_value(name, words, state.plateau_steps.emplace());
      } else {
        set_field(state.config, name, words);
      }
    }
  } catch (const nlohmann::json::exception&) {
    refuse();
  }
  return state;
}

}  // namespace scaling
