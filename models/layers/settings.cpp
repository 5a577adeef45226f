// The knobs of a model and of its components as one list.
#include <algorithm>
#include <set>
#include <utility>

#include "kernels/check.h"
#include "models/config.h"
#include "models/config_checks.h"
#include "models/layers/attention_list.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

constexpr const char* kAuto = "auto";  // blocks: as many as fit

std::string blocks_text(std::int64_t blocks) { return blocks == 0 ? kAuto : print_value(blocks); }

std::string normalised_blocks(const std::string& name, const std::string& text) {
  std::int64_t blocks = 0;
  if (text != kAuto) parse_value(name, text, blocks);
  return blocks_text(blocks);
}

std::vector<KnobInfo> list_knobs() {
  std::vector<KnobInfo> all;
  std::set<std::string> listed;
  const auto add = [&](const KnobInfo& knob) {
    if (listed.insert(knob.name).second) all.push_back(knob);
  };
  const std::vector<std::string> components = component_names();
  for (KnobInfo& own : knobs_of<ModelConfig>()) {
    if (own.name == "blocks") {
      own.initial = blocks_text(ModelConfig().blocks);
      own.normalised = normalised_blocks;
    }
    add(own);
    if (std::find(components.begin(), components.end(), own.name) == components.end()) continue;
    for (const EntryInfo& entry : entries_of(own.name)) {
      for (const KnobInfo& knob : entry.knobs()) add(knob);
    }
  }
  return all;
}

bool is_own(const std::string& name) {
  static const std::vector<std::string> own = names_of_fields<ModelConfig>();
  return std::find(own.begin(), own.end(), name) != own.end();
}

const KnobInfo& info_of(const std::string& name) {
  const std::vector<KnobInfo>& all = all_knobs();
  const auto at = std::find_if(all.begin(), all.end(),
                               [&name](const KnobInfo& knob) { return knob.name == name; });
  if (at == all.end()) refuse_choice("knob", name, field_names());
  return *at;
}

bool has_knob(const EntryInfo& entry, const std::string& name) {
  const std::vector<KnobInfo> knobs = entry.knobs();
  return std::any_of(knobs.begin(), knobs.end(),
                     [&name](const KnobInfo& knob) { return knob.name == name; });
}

/// Whether some entry that is chosen reads the config's: one that sets it for itself does not.
bool is_read_of(const std::vector<ChosenEntry>& chosen, const std::string& knob) {
  return std::any_of(chosen.begin(), chosen.end(), [&knob](const ChosenEntry& one) {
    return has_knob(*one.entry, knob) && !one.sets(knob);
  });
}

/// Blocks take their attentions in turn, whole rounds of them, and heads are shared equally.
void validate_turns(const ModelConfig& config) {
  const auto require_rounds = [&](const char* name, std::int64_t blocks, bool in_encoder) {
    const std::int64_t turns = attentions_in_turn(config, in_encoder);
    if (blocks % turns == 0) return;
    throw UserError(std::string(name) + " " + std::to_string(blocks) + " is no multiple of the " +
                    std::to_string(turns) + " attentions that '" + config.attention_of(in_encoder) +
                    "' gives blocks in turn, so the last round would be cut off; change one of "
                    "the two, or write an attention for each block");
  };
  require_rounds("decoder_layers", config.decoder_layers, false);
  require_rounds("encoder_layers", config.encoder_layers, true);
  require_rounds("blocks", config.blocks, false);
  for (const bool in_encoder : {false, true}) {
    for (const HeadAttentions& of_block : parse_attentions(config.attention_of(in_encoder))) {
      require_divides("n_heads", config.n_heads, "attentions that share heads",
                      std::int64_t(of_block.size()));
    }
  }
}

void validate_encoder_attention(const ModelConfig& config) {
  if (config.encoder_attention.empty() || !config.decoder_only()) return;
  throw UserError("encoder_attention '" + config.encoder_attention +
                  "' is an encoder's, and with encoder_layers 0 there is none; leave it out, or "
                  "give the model an encoder");
}

/// Each of them once, without sizes of its own; some twice, so that they divide the heads.
std::string shrunk_turns(const ModelConfig& config, const std::string& attention) {
  std::vector<HeadAttentions> all;
  std::set<std::string> texts;
  for (const HeadAttentions& of_block : parse_attentions(attention)) {
    HeadAttentions shared;
    std::set<std::string> parts;
    for (NamedAttention one : of_block) {
      std::erase_if(one.own, [](const auto& knob) { return info_of(knob.first).trait.is_size; });
      const std::vector<HeadAttentions> alone(1, HeadAttentions(1, one));
      if (parts.insert(print_attentions(alone)).second) shared.push_back(one);
    }
    if (std::int64_t(shared.size()) > config.n_heads) shared.resize(std::size_t(config.n_heads));
    while (config.n_heads % std::int64_t(shared.size()) != 0) shared.push_back(shared.back());
    const std::vector<HeadAttentions> block(1, shared);
    if (texts.insert(print_attentions(block)).second) all.push_back(shared);
  }
  return print_attentions(all);
}

/// Sizes come from the shape; components, how weights are stored and the seed stay.
void set_shape(ModelConfig& config, const std::string& shape) {
  ModelConfig sized = config_of_shape(shape);
  for (const KnobInfo& knob : all_knobs()) {
    if (!knob.trait.is_size) set_field(sized, knob.name, get_field(config, knob.name));
  }
  config = std::move(sized);
}

}  // namespace

const std::vector<KnobInfo>& all_knobs() {
  static const std::vector<KnobInfo> all = list_knobs();
  return all;
}

std::vector<std::string> field_names() {
  std::vector<std::string> names;
  for (const KnobInfo& knob : all_knobs()) names.push_back(knob.name);
  return names;
}

void set_field(ModelConfig& config, const std::string& name, const std::string& value) {
  const std::string text = info_of(name).normalised(name, value);
  if (name == "shape") {
    set_shape(config, text);
  } else if (name == "blocks") {
    parse_value(name, text == kAuto ? "0" : text, config.blocks);
  } else if (is_own(name)) {
    set_named_field(config, name, text);
  } else {
    config.component_knobs[name] = text;
  }
}

std::string get_field(const ModelConfig& config, const std::string& name) {
  if (name == "blocks") return blocks_text(config.blocks);
  if (is_own(name)) return get_named_field(config, name);
  const KnobInfo& knob = info_of(name);
  const auto at = config.component_knobs.find(name);
  return at == config.component_knobs.end() ? knob.initial : at->second;
}

void add_knobs(Knobs& knobs, ModelConfig& config) {
  for (const KnobInfo& knob : all_knobs()) {
    const std::string name = knob.name;
    knobs.add(
        knob, [&config, name](const std::string& text) { set_field(config, name, text); },
        [&config, name] { return get_field(config, name); });
  }
}

bool is_relevant(const ModelConfig& config, const std::string& knob) {
  if (is_own(knob)) return true;
  const std::vector<std::string> components = component_names();
  return std::any_of(components.begin(), components.end(), [&](const std::string& component) {
    return is_read_of(chosen_entries(config, component), knob);
  });
}

void require_relevant(const ModelConfig& config, const std::string& knob) {
  if ((knob == "cross_projection" || knob == "cross_attention") && !config.has_cross_attention()) {
    throw UserError("'" + knob + "' is of a decoder that attends to its source, and this one " +
                    (config.decoder_only() ? "has none (encoder_layers 0)"
                                           : "has it in front of its own positions (source " +
                                                 print_value(config.source) + ")") +
                    "; leave it out, or give it a source that it attends to");
  }
  if (is_relevant(config, info_of(knob).name)) return;
  std::string users;
  bool is_set = false;
  for (const std::string& component : component_names()) {
    for (const EntryInfo& entry : entries_of(component)) {
      if (has_knob(entry, knob))
        users += (users.empty() ? "" : ", ") + component + "=" + entry.name;
    }
    for (const ChosenEntry& one : chosen_entries(config, component)) is_set |= one.sets(knob);
  }
  throw UserError("'" + knob + "' is a knob of " + users +
                  (is_set ? ", of which each that this model has sets its own; leave it out"
                          : ", of which this model has none; leave it out, or choose one of them"));
}

void validate(const ModelConfig& config) {
  // Unknown names first: what a component says of its sizes is asked of one that is known.
  std::vector<ChosenEntry> chosen;
  for (const std::string& component : component_names()) {
    for (ChosenEntry& one : chosen_entries(config, component)) chosen.push_back(std::move(one));
  }
  require_positive("d_model", config.d_model);
  require_positive("d_ff", config.d_ff);
  require_positive("vocab_size", config.vocab_size);
  require_positive("max_length", config.max_length);
  require_positive("decoder_layers", config.decoder_layers);
  require_positive("attention_layers", config.attention_layers);
  if (config.encoder_swaps != 1 && config.encoder_swaps != 2) {
    throw UserError("encoder_swaps " + std::to_string(config.encoder_swaps) +
                    " is neither 1 nor 2");
  }
  if (config.joins_streams() && !config.is_reversible()) {
    throw UserError(
        "source concatenated_streams wants an encoder of two streams, not one with residual_stack "
        "plain; set residual_stack reversible or source concatenated");
  }
  require_positive("future_tokens", config.future_tokens);
  require_at_most("future_tokens", config.future_tokens, config.max_length);
  if (config.future_tokens > 1 && config.is_concatenated()) {
    throw UserError("future_tokens " + std::to_string(config.future_tokens) +
                    " wants a decoder that attends to its source, not one with source "
                    "concatenated; set source cross_attention or future_tokens 1");
  }
  for (const ChosenEntry& one : chosen_attentions(config, false)) {
    if (config.future_tokens == 1 || one.entry->traits.has_streams) continue;
    throw UserError("future_tokens " + std::to_string(config.future_tokens) + " and attention " +
                    config.attention +
                    " do not go together, since that has no streams; set future_tokens 1, or leave "
                    "attention as it is by default");
  }
  require_divides("d_model", config.d_model, "n_heads", config.n_heads);
  require_not_negative("encoder_layers", config.encoder_layers);
  require_not_negative("blocks", config.blocks);
  validate_encoder_attention(config);
  validate_turns(config);
  if (config.blocks > config.decoder_layers) {
    throw UserError("blocks " + std::to_string(config.blocks) + " exceeds decoder_layers " +
                    std::to_string(config.decoder_layers) + "; hold at most one block per layer");
  }
  if (config.position_encoding == PositionEncoding::fixed_base) {
    require_divides("d_model", config.d_model, "digits of position_encoding fixed_base", 8);
  }
  if (!(config.embedding_scale > 0)) {
    throw UserError("embedding_scale " + print_value(config.embedding_scale) +
                    " must be positive; 1 is the reference's");
  }
  for (const ChosenEntry& one : chosen) one.entry->validate(one.config_of(config));
}

ModelConfig shrunk(ModelConfig config) {
  // Heads and modules of 12: no multiple of a vector. Eight modules, so that a tile of them is met.
  config.d_model = 96;
  config.n_heads = 8;
  config.d_ff = 192;
  config.vocab_size = 200;
  config.max_length = 16;
  config.attention = shrunk_turns(config, config.attention);
  if (!config.encoder_attention.empty()) {
    config.encoder_attention = shrunk_turns(config, config.encoder_attention);
  }
  config.encoder_layers = config.encoder_layers > 0 ? attentions_in_turn(config, true) : 0;
  config.decoder_layers = config.blocks =
      std::max<std::int64_t>(2, attentions_in_turn(config, false));
  config.embedding_scale = 1;  // else logits would show little of the blocks
  config.seed = 1;
  for (const std::string& component : component_names()) {
    for (const ChosenEntry& one : chosen_entries(config, component)) one.entry->shrink(config);
  }
  return config;
}

}  // namespace scaling
