// Products of bf16 weights by the processor's bf16 dot product (vdpbf16ps), which sums two rounded
// products a lane, and modular ones by that of tiles (tdpbf16ps) where there are any; kernels.h
// holds their contracts. To be called where the processor has it.
#pragma once

#include "kernels/kernels.h"

namespace scaling::bf16_dot {

/// Whether this build and this processor have the instruction.
bool is_supported();

/// to[i] = x[i], rounded to nearest, ties to even; subnormals become zeros.
void round(const float* x, std::int64_t n, bf16* to);

/// Rounds x[i] d(i, s) to bf16 before it meets e, unless the modules are few.
void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns, Ahead* ahead);
/// Rounds the frames to bf16.
void module_convolution(const WeightView& w, const Frames& frames, int module_taps, int tokens,
                        float* y, Range tap_rows, Range columns, Ahead* ahead);

/// For tests and comparisons: whether modular products go by tiles from now on, where processor and
/// system have them. Not while kernels run.
void set_tiles(bool on);

/// `rounds` times 16 independent dot products of registers, for the ceiling.
float dot_registers(std::int64_t rounds, float seed);
inline constexpr std::int64_t kFlopsOfRound = 16 * 4 * 16;

}  // namespace scaling::bf16_dot
