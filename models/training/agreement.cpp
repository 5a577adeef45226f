// Knobs are compared by name, so that a new one is compared too.
#include "models/training/agreement.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "models/transformer/positions.h"

namespace scaling {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void refuse_other(const std::string& path, const std::string& name,
                               const std::string& theirs, const std::string& ours) {
  throw UserError("checkpoint '" + path + "' was trained with " + name + " '" + theirs +
                  "', this run has '" + ours + "'; set " + name +
                  " back, or train in another folder");
}

}  // namespace

/// A named shape only stands for sizes, and training is always in f32.
void require_same_model(const std::string& path, const ModelConfig& theirs,
                        const ModelConfig& ours) {
  for (const std::string& name : field_names()) {
    if (is_one_of(name, {"shape", "weight_type"})) continue;
    const std::string a = get_field(theirs, name), b = get_field(ours, name);
    if (a != b) refuse_other(path, name, a, b);
  }
}

/// What the data are, the fingerprint says, and what the weights began as, RunState::init; the rest
/// here changes no weight.
void require_same_training(const std::string& path, const TrainConfig& theirs,
                           const TrainConfig& ours) {
  for (const std::string& name : train_field_names()) {
    if (is_one_of(name, {"steps", "evaluate_every", "evaluate_batches", "checkpoint_every", "gemm",
                         "corpus", "validation", "cache", "init_from"})) {
      continue;
    }
    const std::string a = get_field(theirs, name), b = get_field(ours, name);
    if (a != b) refuse_other(path, name, a, b);
  }
}

void require_room(const TrainConfig& train, const Needs& needs, const ModelConfig& model) {
  // A table needs a row for wherever a batch may begin.
  const bool is_table = model.position_encoding == PositionEncoding::table;
  const Lengths longest = needs.longest();
  const std::int64_t positions =
      is_table ? needs.positions(train) : std::max(longest.source, longest.input);
  if (positions > model.max_length) {
    throw UserError("examples take " + std::to_string(positions) + " positions (" +
                    needs.length_knobs + (is_table ? ", position_offsets" : "") +
                    "), more than max_length " + std::to_string(model.max_length) +
                    "; raise max_length or shorten them");
  }
  if (!is_table && needs.positions(train) > FixedBase::kEnd) {
    throw UserError("position_offsets " + std::to_string(train.position_offsets) +
                    " let examples end behind " + std::to_string(FixedBase::kEnd) +
                    ", which position_encoding fixed_base tells apart; lower it");
  }
}

void require_fit(const TrainConfig& train, const Needs& needs, const ModelConfig& model) {
  if (needs.has_source() == model.decoder_only()) {
    throw UserError("task " + train.task + " does not fit a model with encoder_layers " +
                    std::to_string(model.encoder_layers) +
                    (needs.has_source() ? "; give it an encoder (encoder_layers)"
                                        : "; set encoder_layers 0 and encoder true") +
                    ", or train another task");
  }
  if (needs.causal) require_causal(model);
  if (!needs.causal && model.future_tokens > 1) {
    throw UserError("future_tokens " + std::to_string(model.future_tokens) +
                    " predicts later tokens from earlier ones, and task " + train.task +
                    " is read from both sides; set future_tokens 1, or train another task");
  }
  if (train.dense_steps > 0 && !chosen_entry(model, "feed_forward").traits.can_start_dense) {
    throw UserError(
        "dense_steps " + std::to_string(train.dense_steps) +
        " is for a feed-forward that can compute all its neurons at first, as sparse, and " +
        model.feed_forward + " cannot; set dense_steps 0");
  }
  require_room(train, needs, model);
}

}  // namespace scaling
