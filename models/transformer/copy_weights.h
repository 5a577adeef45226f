// The weights of one model in another.
#pragma once

#include "models/transformer/transformer.h"

namespace scaling {

/// Of a model with the same parameters, in whatever layouts and weight types either holds them.
void copy_weights(Transformer& from, Transformer& to);

}  // namespace scaling
