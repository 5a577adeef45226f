// Rows of alpha-entmax: from logits to probabilities of which most are exactly zero.
#pragma once

#include <cstdint>

namespace scaling {

/// alpha-entmax ("Sparse Sequence-to-Sequence Models"), alpha > 1: p = [(alpha - 1) z - tau]+ ^ (1
/// / (alpha - 1)), tau such that a row's sum is 1. 2 is sparsemax; to 1 its limit is softmax.
/// Logits z are taken less the row's largest, so they are at most 0, and what is at most this is
/// certain to get 0: tau is at least -1, since no p exceeds 1.
inline float entmax_lowest(double alpha) { return float(-1 / (alpha - 1)); }

/// Of a row of n logits less their largest, of which those below entmax_lowest() may be left out,
/// what entmax_probabilities() needs to know; 0 of no logits. For an alpha of 1.5 or 2 it is tau,
/// exactly. For any other it is the largest p, from which tau follows: its interval is halved, or
/// cut by Newton's method where that is sure to converge, until a last step leaves less than a
/// float's rounding, so that nothing need be divided by the sum. z is not kept.
float entmax_threshold(double alpha, float* z, std::int64_t n);

/// z, less the row's largest, becomes p.
void entmax_probabilities(double alpha, float threshold, float* z, std::int64_t n);

/// s = p^(2 - alpha) where p > 0, else 0: with g the gradient of p, that of z is s g - s (sum of s
/// g) / (sum of s). Where alpha exceeds 2, s has no bound as p goes to 0; it is limited to e^20, so
/// that sums are finite.
void entmax_slopes(double alpha, const float* p, float* s, std::int64_t n);

}  // namespace scaling
