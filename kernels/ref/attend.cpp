// Definition of one head's attention over its cache.
#include <cmath>

#include "kernels/ref/ref.h"

namespace scaling::ref {

void attend(const float* q, const float* keys, const float* values, std::int64_t length,
            std::int64_t d_head, float* scores, float* out) {
  for (std::int64_t j = 0; j < length; ++j) {
    double dot = 0;
    for (std::int64_t i = 0; i < d_head; ++i) dot += double(q[i]) * double(keys[j * d_head + i]);
    scores[j] = float(dot / std::sqrt(double(d_head)));
  }
  softmax(scores, length);
  for (std::int64_t i = 0; i < d_head; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      sum += double(scores[j]) * double(values[j * d_head + i]);
    }
    out[i] = float(sum);
  }
}

}  // namespace scaling::ref
