// Box-Muller's pairs, two of a counter.
#include "models/layers/parts/normals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/random.h"

namespace scaling {

void draw_normals(std::uint64_t seed, std::uint64_t stream, std::int64_t index, std::int64_t n,
                  float* values) {
  const std::int64_t counters = (n + 3) / 4;
  for (std::int64_t i = 0; i < n; i += 4) {
    const auto bits = random_bits(seed, stream, std::uint64_t(index * counters + i / 4));
    std::array<float, 4> four{};
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const float radius = std::sqrt(-2.0f * std::log(unit_float(bits[pair])));
      const float angle = 2.0f * std::numbers::pi_v<float> * unit_float(bits[pair + 1]);
      four[pair] = radius * std::cos(angle);
      four[pair + 1] = radius * std::sin(angle);
    }
    std::copy_n(four.data(), std::min<std::int64_t>(4, n - i), values + i);
  }
}

}  // namespace scaling
