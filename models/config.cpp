// Reading, writing and checking the knobs of a model.
#include "models/config.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "kernels/check.h"
#include "kernels/kernels.h"
#include "models/catalog.h"
#include "models/layers/module_convolution.h"

namespace scaling {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  return all;
}

template <class T>
void parse(const std::string& name, const std::string& text, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<T, WeightType>) {
    value = parse_weight_type(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false" && text != "1" && text != "0") {
      throw UserError("'" + text + "' for " + name + " is neither true nor false");
    }
    value = text == "true" || text == "1";
  } else {
    T parsed{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, parsed);
    if (error != std::errc() || stop != end) {
      throw UserError("'" + text + "' for " + name + " is not a whole number in range");
    }
    value = parsed;
  }
}

template <class T>
std::string print(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return value;
  else if constexpr (std::is_same_v<T, WeightType>)
    return name_of(value);
  else if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else
    return std::to_string(value);
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

void require_known(const char* seat, const std::string& name) {
  const auto known = implementations_of(seat);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw UserError("unknown " + std::string(seat) + " '" + name + "'; known: " + joined(known));
  }
}

bool has_modules(const std::string& projection) {
  return projection != "dense" && projection != "low_rank";
}

}  // namespace

void ModelConfig::validate() const {
  require_known("feed_forward", feed_forward);
  require_known("projection", projection);
  require_known("cross_projection", cross_projection);
  require_known("loss", loss);
  require_positive("d_model", d_model);
  require_positive("d_ff", d_ff);
  require_positive("vocab_size", vocab_size);
  require_positive("max_length", max_length);
  require_positive("decoder_layers", decoder_layers);
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
  if (loss == "multiplicative") {
    require_divides("vocab_size", vocab_size, "loss_modules", loss_modules);
    require_at_most("loss_modules", loss_modules, kMaxModules);
  }
  if (loss == "low_rank") require_positive("loss_rank", loss_rank);
}

void set_field(ModelConfig& config, const std::string& name, const std::string& value) {
  if (name == "shape") {
    // Sizes come from the shape; who sits in which seat, how weights are stored and the seed stay.
    ModelConfig sized = config_of_shape(value);
    sized.feed_forward = config.feed_forward;
    sized.feed_forward_bias = config.feed_forward_bias;
    sized.projection = config.projection;
    sized.cross_projection = config.cross_projection;
    sized.loss = config.loss;
    sized.weight_type = config.weight_type;
    sized.seed = config.seed;
    config = sized;
    return;
  }
  bool found = false;
  ModelConfig::fields(config, [&](const char* field, auto& target, const char*) {
    if (name != field) return;
    parse(name, value, target);
    found = true;
  });
  if (!found) throw UserError("unknown knob '" + name + "'; known: " + joined(field_names()));
}

std::string get_field(const ModelConfig& config, const std::string& name) {
  std::string text;
  bool found = false;
  ModelConfig::fields(config, [&](const char* field, const auto& value, const char*) {
    if (name != field) return;
    text = print(value);
    found = true;
  });
  if (!found) throw UserError("unknown knob '" + name + "'; known: " + joined(field_names()));
  return text;
}

std::vector<std::string> field_names() {
  std::vector<std::string> names;
  ModelConfig config;
  ModelConfig::fields(config,
                      [&](const char* field, auto&, const char*) { names.emplace_back(field); });
  return names;
}

}  // namespace scaling
