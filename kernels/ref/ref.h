// The definitions behind ref_kernels(); contracts are in kernels/kernels.h.
#pragma once

#include "kernels/kernels.h"

namespace scaling::ref {

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
std::int64_t argmax(const float* x, std::int64_t n);

void attend(const float* q, const HeadMemory& memory, float* scores, float* out);
void attend_entmax(double alpha, const float* q, const HeadMemory& memory, float* scores,
                   float* survivors, float* out);

}  // namespace scaling::ref
