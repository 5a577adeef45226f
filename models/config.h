// Every knob of a model: its own here, those of its components where the components are.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/weight.h"
#include "models/knobs.h"

namespace scaling {

/// Two streams or one (paper 5.1). reversible_stored computes what reversible does, and keeps
/// activations.
enum class ResidualStack { plain, reversible, reversible_stored };
constexpr std::array<const char*, 3> names_of(ResidualStack) {
  return {"plain", "reversible", "reversible_stored"};
}

/// How a decoder sees the source (paper 5.2).
enum class SourceUse { cross_attention, concatenated, concatenated_streams };
constexpr std::array<const char*, 3> names_of(SourceUse) {
  return {"cross_attention", "concatenated", "concatenated_streams"};
}

/// How positions are told (paper 4.7): a trained table of max_length rows, or digits in four bases.
enum class PositionEncoding { table, fixed_base };
constexpr std::array<const char*, 2> names_of(PositionEncoding) { return {"table", "fixed_base"}; }

/// Sizes, and the name of the implementation of each component. Names are the paper's.
struct ModelConfig {
  std::string shape = "800m";
  std::int64_t d_model = 1024;
  std::int64_t d_ff = 4096;
  std::int64_t n_heads = 16;
  std::int64_t vocab_size = 32000;
  std::int64_t max_length = 512;
  std::int64_t encoder_layers = 24;
  std::int64_t decoder_layers = 24;
  /// Distinct decoder blocks held in memory; 0, as text auto: as many as memory holds, at most
  /// decoder_layers.
  std::int64_t blocks = 0;
  /// false: no encoder is built, its output vectors are drawn at random, and records say so.
  bool encoder = true;
  /// Token embeddings start this many times larger than the released code's. Beside random weights
  /// those are so small that every token would choose nearly the same neurons.
  double embedding_scale = 1;
  PositionEncoding position_encoding = PositionEncoding::table;

  std::string feed_forward = "dense";      // paper 1
  std::string projection = "dense";        // decoder self-attention's, paper 2
  std::string cross_projection = "dense";  // paper 2.8
  // Self-attention's (paper 4), or several (models/layers/attention_list.h).
  std::string attention = "full";
  /// The encoder's, where it is another than the decoder's; empty: it is not.
  std::string encoder_attention;
  std::string cross_attention = "full";  // of a decoder that attends to its source
  std::string loss = "dense";            // paper 3
  ResidualStack residual_stack = ResidualStack::plain;
  std::int64_t attention_layers = 1;  // self-attentions of a decoder block
  SourceUse source = SourceUse::cross_attention;
  std::int64_t encoder_swaps = 2;    // of a reversible encoder block: 1 or 2
  bool recompute_decisions = false;  // in the backward pass of a reversible stack (paper 5.3)
  std::string recurrence = "none";   // beside the feed-forward of every block (paper 6)
  /// That training predicts at each position of a decoder (ProphetNet, Qi et al. 2020): 1, the
  /// next; those behind it by a stream each, of which decoding and evaluation have none.
  std::int64_t future_tokens = 1;

  WeightType weight_type = WeightType::f32;
  std::uint64_t seed = 1;

  /// Knobs of components that were set, by name, as text; others have their defaults. set_field
  /// knows them.
  std::map<std::string, std::string> component_knobs;

  /// The model's own knobs (see models/knobs.h).
  template <class Self, class Visitor>
  static void fields(Self& c, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("shape", c.shape, "named sizes to start from", size);
    visit("d_model", c.d_model, "width of the residual stream", size);
    visit("d_ff", c.d_ff, "feed-forward neurons", size);
    visit("n_heads", c.n_heads, "attention heads", size);
    visit("vocab_size", c.vocab_size, "tokens in the vocabulary", size);
    visit("max_length", c.max_length, "rows of each positional table", size);
    visit("encoder_layers", c.encoder_layers, "encoder blocks", size);
    visit("decoder_layers", c.decoder_layers, "decoder blocks of the full model", size);
    visit("blocks", c.blocks, "distinct decoder blocks in memory, or auto: as many as fit", size);
    visit("encoder", c.encoder, "build the encoder; false: random encoder output", size);
    visit(
        "embedding_scale", c.embedding_scale,
        "token embeddings start this many times larger; large: untrained blocks tell tokens apart");
    visit("position_encoding", c.position_encoding,
          "how positions are told: table, a trained row each, or fixed_base, digits in four bases "
          "times trained vectors");
    visit("feed_forward", c.feed_forward, "implementation of the feed-forward");
    visit("projection", c.projection, "implementation of the self-attention projections");
    visit("cross_projection", c.cross_projection,
          "implementation of the cross-attention projections");
    visit("attention", c.attention,
          "implementation of self-attention between the projections; several with commas are those "
          "of blocks in turn, with plus signs they share heads, name:knob=value sets one's own");
    visit("encoder_attention", c.encoder_attention,
          "the encoder's attention, in the same words; empty: the decoder's");
    visit("cross_attention", c.cross_attention,
          "implementation of attention to the source between the cross-attention projections");
    visit("loss", c.loss, "implementation of the layer to the vocabulary");
    visit("residual_stack", c.residual_stack,
          "plain, reversible, or reversible_stored: the latter's function, its activations kept");
    visit("attention_layers", c.attention_layers, "self-attentions of a decoder block");
    visit(
        "source", c.source,
        "how the decoder sees the source: cross_attention, concatenated, or concatenated_streams, "
        "each of a reversible encoder's two streams before one of the decoder's");
    visit("encoder_swaps", c.encoder_swaps, "swaps of a reversible encoder block: 1 or 2");
    visit("recompute_decisions", c.recompute_decisions,
          "choose anew in a reversible backward pass, to see what that does");
    visit("recurrence", c.recurrence, "implementation of the recurrence beside the feed-forward");
    visit("future_tokens", c.future_tokens,
          "tokens that training predicts at each position: 1, the next; more, by streams of their "
          "own that decoding has not");
    visit("weight_type", c.weight_type, "f32 or bf16");
    visit("seed", c.seed, "of the weights");
  }

  /// Knobs of a component: Options is its struct of them.
  template <class Options>
  Options options() const {
    Options own;
    Options::fields(own, [this](const char* name, auto& value, const char*, Trait = {}) {
      const auto at = component_knobs.find(name);
      if (at != component_knobs.end()) parse_value(name, at->second, value);
    });
    return own;
  }

  /// No encoder and no cross-attention. With encoder = false blocks do attend, to drawn vectors.
  bool decoder_only() const { return encoder && encoder_layers == 0; }
  bool has_cross_attention() const {
    return !decoder_only() && source == SourceUse::cross_attention;
  }
  bool is_concatenated() const { return !decoder_only() && source != SourceUse::cross_attention; }
  /// Both streams of the encoder go to the decoder.
  bool joins_streams() const {
    return !decoder_only() && source == SourceUse::concatenated_streams;
  }
  /// Columns of the encoder's output.
  std::int64_t encoded_width() const { return joins_streams() ? 2 * d_model : d_model; }
  /// Two streams.
  bool is_reversible() const { return residual_stack != ResidualStack::plain; }
  std::int64_t d_head() const { return d_model / n_heads; }
  /// Text of models/layers/attention_list.h of either stack.
  const std::string& attention_of(bool in_encoder) const {
    return in_encoder && !encoder_attention.empty() ? encoder_attention : attention;
  }
};

/// A config with the sizes of a named shape; throws UserError that lists the known shapes.
ModelConfig config_of_shape(const std::string& shape);
std::vector<std::string> shape_names();

// What follows asks the components too and is defined beside their catalog
// (models/layers/settings.cpp).

/// Every knob: the model's own in their order, behind the name of a component those of its
/// implementations. `shape` sets sizes; `blocks` may be auto.
const std::vector<KnobInfo>& all_knobs();
std::vector<std::string> field_names();

/// Sets one knob by name from text ("sparsity", "64"; "blocks", "auto"). Setting `shape` sets its
/// sizes too. Throws UserError for an unknown knob (lists the known) or an unreadable value.
void set_field(ModelConfig& config, const std::string& name, const std::string& value);
/// The text set_field would read back.
std::string get_field(const ModelConfig& config, const std::string& name);
template <class T>
requires std::is_arithmetic_v<T>
void set_field(ModelConfig& config, const std::string& name, T value) {
  set_field(config, name, print_value(value));
}
/// All of them behind `knobs`, which borrows the config.
void add_knobs(Knobs& knobs, ModelConfig& config);

/// Whether a knob is the model's own or one of an implementation that the config has chosen.
bool is_relevant(const ModelConfig& config, const std::string& knob);
/// Throws UserError that names the implementations that have the knob, if the config has none of
/// them.
void require_relevant(const ModelConfig& config, const std::string& knob);

/// Throws UserError naming both numbers if sizes do not divide or are not positive, and listing
/// the known names if an implementation is unknown.
void validate(const ModelConfig& config);

/// A small model of the same components, in which whatever they do still shows: vectors that are
/// not whole, several modules, blocks and heads.
ModelConfig shrunk(ModelConfig config);

}  // namespace scaling
