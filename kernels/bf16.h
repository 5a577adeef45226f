// bfloat16: the upper half of a float; storage only, arithmetic is f32.
#pragma once

#include <bit>
#include <cstdint>

namespace scaling {

struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 v) { return std::bit_cast<float>(std::uint32_t(v.bits) << 16); }
inline float to_float(float v) { return v; }

/// Round to nearest, ties to even; a NaN stays a NaN.
inline bf16 to_bf16(float v) {
  const auto u = std::bit_cast<std::uint32_t>(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t((u >> 16) | 0x40u)};
  return {std::uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace scaling
