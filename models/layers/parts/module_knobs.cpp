// Modules must divide the width; both kernels have a most.
#include "models/layers/parts/module_knobs.h"

#include "kernels/kernels.h"
#include "models/config_checks.h"

namespace scaling {

void ModuleKnobs::validate(const ModelConfig& config) const {
  require_divides("d_model", config.d_model, "modules", modules);
  require_at_most("modules", modules, kMaxModules);
}

void ConvolutionKnobs::validate(const ModelConfig& config) const {
  modular.validate(config);
  require_positive("kernel_size", kernel_size);
  require_at_most("kernel_size", kernel_size, kMaxKernelSize);
}

}  // namespace scaling
