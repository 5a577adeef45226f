// Named model sizes as data: ours, the paper's, and well-known published shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "models/knobs.h"

namespace scaling {

/// One row of the table. A single-stack model (encoder-only or decoder-only) has its layers as
/// decoder_layers and no encoder: its block is then measured as our pre-norm ReLU decoder block.
struct Shape {
  const char* name;
  std::int64_t d_model, d_ff, n_heads, vocab_size, max_length, encoder_layers, decoder_layers;
  Settings knobs = {};  ///< set beside these
};

/// Every shape config_of_shape knows.
const std::vector<Shape>& shapes();

}  // namespace scaling
