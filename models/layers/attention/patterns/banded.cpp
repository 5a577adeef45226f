// The band's one knob.
#include "models/layers/attention/patterns/banded.h"

#include "models/config_checks.h"

namespace scaling {

void BandedAttention::validate(const ModelConfig& config) {
  PatternAttention::validate(config);
  require_positive("band_width", config.options<BandedKnobs>().band_width);
}

void BandedAttention::shrink(ModelConfig& config) { set_field(config, "band_width", 4); }

}  // namespace scaling
