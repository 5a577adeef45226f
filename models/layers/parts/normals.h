// Normally distributed draws for layers that choose by random directions.
#pragma once

#include <cstdint>

namespace scaling {

/// values[i] ~ N(0, 1) for n values: the index-th n of a stream.
void draw_normals(std::uint64_t seed, std::uint64_t stream, std::int64_t index, std::int64_t n,
                  float* values);

}  // namespace scaling
