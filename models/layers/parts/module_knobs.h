// Knobs of the layers that cut a vector into modules.
#pragma once

#include <cstdint>

#include "models/config.h"

namespace scaling {

inline constexpr std::int64_t kMaxKernelSize = 16;

/// For layers with modules.
struct ModuleKnobs {
  std::int64_t modules = 16;  // S

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("modules", k.modules, "S: modules of the multiplicative and modular layers",
          Trait{.is_size = true});
  }
  /// Throws UserError if d_model cannot be cut so.
  void validate(const ModelConfig& config) const;
};

/// For those that look at the last tokens too.
struct ConvolutionKnobs {
  ModuleKnobs modular;
  std::int64_t kernel_size = 3;  // F, length kernel of the convolutions
  bool tap_scaling = false;      // they start with a variance that counts all their taps

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    ModuleKnobs::fields(k.modular, visit);
    visit("kernel_size", k.kernel_size, "F: tokens a convolution sees", Trait{.is_size = true});
    visit("tap_scaling", k.tap_scaling,
          "start convolutions at the variance of all their taps; false: of one, as released");
  }
  void validate(const ModelConfig& config) const;
};

/// What the entries of such layers share; derive the layer from it.
template <class Knobs>
struct CutIntoModules {
  using Options = Knobs;
  static void validate(const ModelConfig& config) { config.options<Knobs>().validate(config); }
  static void shrink(ModelConfig& config) { set_field(config, "modules", 8); }
};

}  // namespace scaling
