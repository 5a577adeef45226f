// A query looks at a band of the latest positions: the local primitive of the Sparse Transformer,
// and what every other layer of GPT-3 has.
#pragma once

#include <memory>

#include "models/layers/attention/patterns/window.h"

namespace scaling {

struct BandedKnobs : PatternKnobs {
  std::int64_t band_width = 256;  // GPT-3's is not published

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("band_width", k.band_width,
          "positions in the banded attention's band, the query's own included",
          Trait{.is_size = true});
    PatternKnobs::fields(k, visit);
  }
};

/// Key j of query i if i - band_width < j <= i, and without a causal mask as many after i as
/// before: a window whose one side is counted.
class BandedAttention : public PatternAttention {
 public:
  using Options = BandedKnobs;
  /// Throws UserError if the width is not positive.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit BandedAttention(const ModelConfig& config)
      : PatternAttention(
            config, std::make_unique<Window>(2 * config.options<BandedKnobs>().band_width - 1)) {}
};

}  // namespace scaling
