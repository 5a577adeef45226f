// Reading, writing and checking the knobs of a model.
#include "models/config.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/kernels.h"
#include "models/knobs.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/module_convolution.h"

namespace scaling {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  return all;
}

void require_positive(const char* name, std::int64_t value) {
  if (value <= 0) {
    throw UserError(std::string(name) + " " + std::to_string(value) +
                    " is not positive; give a number of at least 1");
  }
}

void require_divides(const char* whole, std::int64_t n, const char* part, std::int64_t parts) {
  require_positive(part, parts);
  if (n % parts != 0) {
    throw UserError(std::string(whole) + " " + std::to_string(n) + " is not divisible by " + part +
                    " " + std::to_string(parts) + "; change one of the two");
  }
}

void require_at_most(const char* name, std::int64_t value, std::int64_t most) {
  if (value > most) {
    throw UserError(std::string(name) + " " + std::to_string(value) + " exceeds " +
                    std::to_string(most) + ", the most this build computes; choose a smaller one");
  }
}

void require_one_of(const char* what, const std::string& name,
                    const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw UserError("unknown " + std::string(what) + " '" + name + "'; known: " + joined(known));
  }
}

void require_known(const char* seat, const std::string& name) {
  require_one_of(seat, name, implementations_of(seat));
}

constexpr const char* kAuto = "auto";  // blocks: as many as fit
constexpr double kMaxSelectionNoise = 1000;
constexpr std::int64_t kMaxBuckets = 65536;

bool has_modules(const std::string& projection) {
  return projection != "dense" && projection != "low_rank";
}

}  // namespace

void ModelConfig::validate() const {
  require_known("feed_forward", feed_forward);
  require_known("projection", projection);
  require_known("cross_projection", cross_projection);
  require_known("attention", attention);
  require_known("loss", loss);
  require_known("recurrence", recurrence);
  require_one_of("residual_stack", residual_stack, {"plain", "reversible", "reversible_stored"});
  require_one_of("source", source, {"cross_attention", "concatenated"});
  require_one_of("selector", selector, {"learned", "random", "hash"});
  require_positive("d_model", d_model);
  require_positive("d_ff", d_ff);
  require_positive("vocab_size", vocab_size);
  require_positive("max_length", max_length);
  require_positive("decoder_layers", decoder_layers);
  require_positive("attention_layers", attention_layers);
  if (encoder_swaps != 1 && encoder_swaps != 2) {
    throw UserError("encoder_swaps " + std::to_string(encoder_swaps) + " is neither 1 nor 2");
  }
  require_divides("d_model", d_model, "n_heads", n_heads);
  if (encoder_layers < 0 || blocks < 0 || d_lowrank < 0) {
    throw UserError("encoder_layers " + std::to_string(encoder_layers) + ", blocks " +
                    std::to_string(blocks) + " and d_lowrank " + std::to_string(d_lowrank) +
                    " must not be negative");
  }
  if (blocks > decoder_layers) {
    throw UserError("blocks " + std::to_string(blocks) + " exceeds decoder_layers " +
                    std::to_string(decoder_layers) + "; hold at most one block per layer");
  }
  if (feed_forward == "sparse") {
    require_divides("d_ff", d_ff, "sparsity", sparsity);
    require_positive("d_lowrank", controller_rank());
  }
  if (!(embedding_scale > 0)) {
    throw UserError("embedding_scale " + print_value(embedding_scale) +
                    " must be positive; 1 is the reference's");
  }
  // A negative value stands for the reference's; what is not a number fails the first comparison.
  if (!(selection_noise <= kMaxSelectionNoise)) {
    throw UserError("selection_noise " + print_value(selection_noise) + " exceeds " +
                    print_value(kMaxSelectionNoise) +
                    ", where nothing but noise selects; give a smaller one, 0 for none");
  }
  if (!(hard_probability <= 1)) {
    throw UserError("hard_probability " + print_value(hard_probability) +
                    " is no probability; give a number in [0, 1], or a negative one for the "
                    "reference's");
  }
  if (feed_forward == "moe_block" || feed_forward == "moe_switch") {
    require_divides("d_ff", d_ff, "experts", experts);
  }
  if (has_modules(projection) || has_modules(cross_projection)) {
    require_divides("d_model", d_model, "modules", modules);
    require_at_most("modules", modules, kMaxModules);
    require_positive("kernel_size", kernel_size);
    require_at_most("kernel_size", kernel_size, kMaxKernelSize);
  }
  if (projection == "low_rank") require_positive("projection_rank", projection_rank);
  if (attention == "lsh") {
    require_positive("lsh_chunk", lsh_chunk);
    require_positive("lsh_rounds", lsh_rounds);
    if (lsh_buckets < 0 || lsh_buckets % 2 != 0 || lsh_buckets > kMaxBuckets) {
      throw UserError("lsh_buckets " + std::to_string(lsh_buckets) +
                      " is not an even number up to " + std::to_string(kMaxBuckets) +
                      ", and every hash has an opposite; give one, or 0 for two buckets a chunk");
    }
    if (lsh_chunks_before < 0 || lsh_chunks_after < 0) {
      throw UserError("lsh_chunks_before " + std::to_string(lsh_chunks_before) +
                      " and lsh_chunks_after " + std::to_string(lsh_chunks_after) +
                      " must not be negative");
    }
  }
  if (loss == "multiplicative") {
    require_divides("vocab_size", vocab_size, "loss_modules", loss_modules);
    require_at_most("loss_modules", loss_modules, kMaxModules);
  }
  if (loss == "low_rank") require_positive("loss_rank", loss_rank);
  if (recurrence == "sru") require_positive("recurrence_width", recurrence_width);
}

void set_field(ModelConfig& config, const std::string& name, const std::string& value) {
  if (name == "shape") {
    // Sizes come from the shape; who sits in which seat, how weights are stored and the seed stay.
    ModelConfig sized = config_of_shape(value);
    for (const char* knob :
         {"embedding_scale", "feed_forward", "feed_forward_bias", "selector", "selection_noise",
          "hard_probability", "kernel_scaling", "projection", "cross_projection", "attention",
          "loss", "residual_stack", "attention_layers", "source", "encoder_swaps",
          "recompute_decisions", "recurrence", "weight_type", "seed"}) {
      set_field(sized, knob, get_field(config, knob));
    }
    config = sized;
  } else if (name == "blocks" && value == kAuto) {
    config.blocks = 0;
  } else {
    set_named_field(config, name, value);
  }
}

std::string get_field(const ModelConfig& config, const std::string& name) {
  if (name == "blocks" && config.blocks == 0) return kAuto;
  return get_named_field(config, name);
}

std::vector<std::string> field_names() { return names_of_fields<ModelConfig>(); }

}  // namespace scaling
