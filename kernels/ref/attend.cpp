// Definition of one head's attention over its cache, by softmax and by alpha-entmax.
#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.h"

namespace scaling::ref {
namespace {

/// scores = q k^T / sqrt(d_head).
void score_keys(const float* q, const HeadMemory& memory, float* scores) {
  const std::int64_t d = memory.d_head;
  for (std::int64_t j = 0; j < memory.length; ++j) {
    const float* key = memory.keys + memory.position(j) * d;
    double dot = 0;
    for (std::int64_t i = 0; i < d; ++i) dot += double(q[i]) * double(key[i]);
    scores[j] = float(dot / std::sqrt(double(d)));
  }
}

/// out = weights values.
void mix_values(const float* weights, const HeadMemory& memory, float* out) {
  const std::int64_t d = memory.d_head;
  for (std::int64_t i = 0; i < d; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < memory.length; ++j) {
      sum += double(weights[j]) * double(memory.values[memory.position(j) * d + i]);
    }
    out[i] = float(sum);
  }
}

/// The sum of p for a tau; x is (alpha - 1) (z - the largest z).
double sum_of_probabilities(double alpha, const float* z, std::int64_t n, float largest,
                            double tau) {
  double sum = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    const double x = (alpha - 1) * (double(z[j]) - double(largest));
    if (x > tau) sum += std::pow(x - tau, 1 / (alpha - 1));
  }
  return sum;
}

/// In place: z becomes alpha-entmax of z. Of its largest p, which is between 1 / n and 1, and with
/// it of tau = -p^(alpha - 1), the interval is halved until doubles end.
void entmax(double alpha, float* z, std::int64_t n) {
  const float largest = *std::max_element(z, z + n);
  const auto tau_of = [alpha](double p) { return -std::pow(p, alpha - 1); };
  double low = 1 / double(n), high = 1;
  for (;;) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (sum_of_probabilities(alpha, z, n, largest, tau_of(middle)) < 1 ? low : high) = middle;
  }
  const double tau = tau_of(high), sum = sum_of_probabilities(alpha, z, n, largest, tau);
  for (std::int64_t j = 0; j < n; ++j) {
    const double x = (alpha - 1) * (double(z[j]) - double(largest));
    z[j] = x > tau ? float(std::pow(x - tau, 1 / (alpha - 1)) / sum) : 0.0f;
  }
}

}  // namespace

void attend(const float* q, const HeadMemory& memory, float* scores, float* out) {
  score_keys(q, memory, scores);
  softmax(scores, memory.length);
  mix_values(scores, memory, out);
}

void attend_entmax(double alpha, const float* q, const HeadMemory& memory, float* scores, float*,
                   float* out) {
  score_keys(q, memory, scores);
  entmax(alpha, scores, memory.length);
  mix_values(scores, memory, out);
}

}  // namespace scaling::ref
