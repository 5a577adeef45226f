// The simd set's kernels by name, each choosing its instruction set; kernels.h holds their
// contracts.
#pragma once

#include "kernels/kernels.h"

namespace scaling::simd {

/// Who asks memory for streams of weights ahead of their use: the kernel; or the kernel, with dense
/// products of f32 along four rows far apart; or the processor, with all dense products along four
/// rows far apart; or the processor along two, but for gathered rows the kernel.
enum class Prefetch { by_kernel, by_kernel_far, by_processor_of_four, by_processor_of_two };

inline bool is_by_processor(Prefetch by) {
  return by == Prefetch::by_processor_of_four || by == Prefetch::by_processor_of_two;
}

/// The fastest way on this processor. AMD's prefetchers follow rows at the rate of memory, and
/// asking as well costs a fifth of it (Zen 5). Zen 4 follows four best. Zen 5 follows two a tenth
/// faster than four by one thread; by two threads in slow memory it is up to a tenth slower at 17B.
/// Of gathered rows asking costs Zen 4 the more, the longer they are; by one thread Zen 5 has them
/// up to a fifth sooner with it, by two about as soon. On Intel's the kernel asks: for 16 rows side
/// by side (8 of rows below a page), a sixth faster than for four, or, on Xeons from Sapphire
/// Rapids on, for four of f32 far apart, into the second-level cache: 800M's are 4 to 10 % faster
/// so on a Granite Rapids (one thread), on an Emerald Rapids a dense block 7 %. Eight of bf16 so
/// were as fast as the older way on a Granite Rapids, and 2 to 10 % slower on an Emerald Rapids.
Prefetch prefetch_by();
/// For tests and comparisons: what prefetch_by returns from now on. Not while kernels run.
void set_prefetch_by(Prefetch by);

void dense(const WeightView& w, const float* bias, const float* x, int tokens, float* y,
           Range outputs, bool relu);
void dense_transposed(const WeightView& w, const float* h, int tokens, float* y, Range inputs);
void controller(const WeightView& w, const float* bias, const float* hidden, int tokens,
                std::int64_t block, float* logits, std::int32_t* selected, Range blocks);
void gather_dot(const WeightView& w, const float* bias, const Selection* s, std::int64_t n,
                const float* x, float* h);
void gather_accumulate(const WeightView& w, const Selection* s, std::int64_t n, const float* h,
                       float* y);
void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns, Ahead* ahead);
void module_convolution(const WeightView& w, const Frames& frames, int module_taps, int tokens,
                        float* y, Range tap_rows, Range columns, Ahead* ahead);
void layer_norm(const float* x, const float* scale, const float* bias, int tokens, std::int64_t d,
                float* y);
void softmax(float* x, std::int64_t n);
void attend(const float* q, const HeadMemory& memory, float* scores, float* out);
void attend_entmax(double alpha, const float* q, const HeadMemory& memory, float* scores,
                   float* survivors, float* out);
std::int64_t argmax(const float* x, std::int64_t n);

}  // namespace scaling::simd
