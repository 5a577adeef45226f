// Every knob of a model, each named once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/weight.h"

namespace scaling {

/// Sizes and the implementations in each seat. Names are the paper's; reference sections in
/// brackets.
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
  /// Token embeddings start this many times larger than the reference's. Beside random weights
  /// those are so small that every token would choose nearly the same neurons.
  double embedding_scale = 1;

  std::string feed_forward = "dense";  // [1]
  std::int64_t sparsity = 64;          // N, neurons of which one is computed
  std::int64_t d_lowrank = 0;          // r of the controller; 0: d_ff / N
  bool feed_forward_bias = false;    // b1 in the sparse feed-forward (the paper's formula has one)
  std::string selector = "learned";  // of the sparse feed-forward: learned | random | hash
  double selection_noise = -1;   // tau of the training noise; < 0: 0.1, moe_block 0.7 [1.2, 1.3]
  double hard_probability = -1;  // of a hard selection in training; < 0: 0.3, moe_block 0.5
  bool kernel_scaling = false;   // W2 of the sparse feed-forward starts sqrt(N) times as large
  std::int64_t experts = 64;     // E of moe_block and moe_switch
  std::string projection = "dense";        // decoder self-attention [2]
  std::int64_t modules = 16;               // S
  std::int64_t kernel_size = 3;            // F, length kernel of the convolutions
  std::int64_t projection_rank = 64;       // of low_rank
  std::string cross_projection = "dense";  // dense | mult_conv (no output) | mult_conv_output [2.8]
  std::string attention = "full";          // self-attention's [4]; cross-attention's is full
  std::int64_t lsh_chunk = 128;            // positions of a chunk of the lsh attention [4.4]
  std::int64_t lsh_rounds = 2;
  std::int64_t lsh_buckets = 0;        // of a round, even; 0: two a chunk
  std::int64_t lsh_chunks_before = 1;  // that a chunk sees beside itself
  std::int64_t lsh_chunks_after = 0;
  std::string loss = "dense";     // [3]
  std::int64_t loss_modules = 4;  // S of the multiplicative loss
  std::int64_t loss_rank = 64;
  std::string residual_stack = "plain";    // plain | reversible | reversible_stored [5.1]
  std::int64_t attention_layers = 1;       // self-attentions of a decoder block
  std::string source = "cross_attention";  // how a decoder sees it: or concatenated [5.2]
  std::int64_t encoder_swaps = 2;          // of a reversible encoder block: 1 or 2
  bool recompute_decisions = false;        // in the backward pass of a reversible stack [5.3]
  std::string recurrence = "none";         // beside the feed-forward of every block [6]
  std::int64_t recurrence_width = 32;      // units of sru

  WeightType weight_type = WeightType::f32;
  std::uint64_t seed = 1;

  /// visitor(name, reference to the value, help) for every knob, in the order above; from it come
  /// flags, help, parsing, the echoed settings and the record's configuration.
  template <class Self, class Visitor>
  static void fields(Self& c, Visitor&& visit) {
    visit("shape", c.shape, "named sizes to start from");
    visit("d_model", c.d_model, "width of the residual stream");
    visit("d_ff", c.d_ff, "feed-forward neurons");
    visit("n_heads", c.n_heads, "attention heads");
    visit("vocab_size", c.vocab_size, "tokens in the vocabulary");
    visit("max_length", c.max_length, "rows of each positional table");
    visit("encoder_layers", c.encoder_layers, "encoder blocks");
    visit("decoder_layers", c.decoder_layers, "decoder blocks of the full model");
    visit("blocks", c.blocks, "distinct decoder blocks in memory, or auto: as many as fit");
    visit("encoder", c.encoder, "build the encoder; false: random encoder output");
    visit(
        "embedding_scale", c.embedding_scale,
        "token embeddings start this many times larger; large: untrained blocks tell tokens apart");
    visit("feed_forward", c.feed_forward, "implementation of the feed-forward seat");
    visit("sparsity", c.sparsity, "N: one neuron in N is computed");
    visit("d_lowrank", c.d_lowrank, "rank of the controller; 0: d_ff / N");
    visit("feed_forward_bias", c.feed_forward_bias, "b1 in the sparse feed-forward");
    visit(
        "selector", c.selector,
        "what chooses the sparse feed-forward's neurons: learned (the paper's controller), random "
        "(the same, never trained) or hash (of the token id)");
    visit("selection_noise", c.selection_noise,
          "tau: scale of the Gumbel noise on selections in training; negative: 0.1, moe_block 0.7");
    visit("hard_probability", c.hard_probability,
          "share of training calls with a hard selection; negative: 0.3, moe_block 0.5");
    visit("kernel_scaling", c.kernel_scaling, "start the sparse feed-forward's W2 sqrt(N) larger");
    visit("experts", c.experts, "experts of the mixture-of-experts layers");
    visit("projection", c.projection, "implementation of the self-attention projections");
    visit("modules", c.modules, "S: modules of the multiplicative and modular layers");
    visit("kernel_size", c.kernel_size, "F: tokens a convolution sees");
    visit("projection_rank", c.projection_rank, "rank of the low_rank projection");
    visit("cross_projection", c.cross_projection,
          "implementation of the cross-attention projections");
    visit("attention", c.attention, "implementation of self-attention between the projections");
    visit("lsh_chunk", c.lsh_chunk, "positions in a chunk of the lsh attention");
    visit("lsh_rounds", c.lsh_rounds, "rounds of hashing of the lsh attention");
    visit("lsh_buckets", c.lsh_buckets, "buckets of a round, an even number; 0: two a chunk");
    visit("lsh_chunks_before", c.lsh_chunks_before, "chunks that a chunk sees before itself");
    visit("lsh_chunks_after", c.lsh_chunks_after, "chunks that a chunk sees after itself");
    visit("loss", c.loss, "implementation of the layer to the vocabulary");
    visit("loss_modules", c.loss_modules, "S of the multiplicative loss");
    visit("loss_rank", c.loss_rank, "rank of the low_rank loss");
    visit("residual_stack", c.residual_stack,
          "plain, reversible, or reversible_stored: the latter's function, its activations kept");
    visit("attention_layers", c.attention_layers, "self-attentions of a decoder block");
    visit("source", c.source, "how the decoder sees the source: cross_attention or concatenated");
    visit("encoder_swaps", c.encoder_swaps, "swaps of a reversible encoder block: 1 or 2");
    visit("recompute_decisions", c.recompute_decisions,
          "choose anew in a reversible backward pass, to see what that does");
    visit("recurrence", c.recurrence, "implementation of the recurrence beside the feed-forward");
    visit("recurrence_width", c.recurrence_width, "units of the sru recurrence");
    visit("weight_type", c.weight_type, "f32 or bf16");
    visit("seed", c.seed, "of the weights");
  }

  /// No encoder and no cross-attention. With encoder = false blocks do attend, to drawn vectors.
  bool decoder_only() const { return encoder && encoder_layers == 0; }
  bool has_cross_attention() const { return !decoder_only() && source == "cross_attention"; }
  bool is_concatenated() const { return !decoder_only() && source == "concatenated"; }
  /// Two streams.
  bool is_reversible() const { return residual_stack != "plain"; }
  std::int64_t d_head() const { return d_model / n_heads; }
  std::int64_t controller_rank() const { return d_lowrank ? d_lowrank : d_ff / sparsity; }

  /// Throws UserError naming both numbers if sizes do not divide or are not positive, and listing
  /// the known names if an implementation is unknown.
  void validate() const;
};

/// Sets one knob by name from text ("sparsity", "64"; "blocks", "auto"). Setting `shape` sets its
/// sizes too. Throws UserError for an unknown knob (lists the known) or an unreadable value.
void set_field(ModelConfig& config, const std::string& name, const std::string& value);
/// The text set_field would read back.
std::string get_field(const ModelConfig& config, const std::string& name);
std::vector<std::string> field_names();

/// A config with the sizes of a named shape; throws UserError that lists the known shapes.
ModelConfig config_of_shape(const std::string& shape);
std::vector<std::string> shape_names();

}  // namespace scaling
