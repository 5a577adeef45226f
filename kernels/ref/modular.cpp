// Definition of the multiplicative layer and of the convolution over modules and remembered tokens.
#include "kernels/ref/ref.h"

namespace scaling::ref {

void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns, Ahead* /*ahead*/) {
  const std::int64_t in = d.rows, modules = d.cols, width = e.cols;
  for (int t = 0; t < tokens; ++t) {
    for (std::int64_t s = 0; s < modules; ++s) {
      for (std::int64_t m = columns.begin; m < columns.end; ++m) {
        float& out = y[(t * modules + s) * width + m];
        double sum = double(out);
        for (std::int64_t i = inputs.begin; i < inputs.end; ++i) {
          sum += double(x[t * in + i]) * double(element(d, i, s)) * double(element(e, i, m));
        }
        out = float(sum);
      }
    }
  }
}

void module_convolution(const WeightView& w, const Frames& f, int module_taps, int tokens, float* y,
                        Range tap_rows, Range columns, Ahead* /*ahead*/) {
  const std::int64_t frame_stride = f.modules + 2 * f.padding;
  const std::int64_t half = (module_taps - 1) / 2;
  for (int t = 0; t < tokens; ++t) {
    for (std::int64_t s = 0; s < f.modules; ++s) {
      for (std::int64_t o = columns.begin; o < columns.end; ++o) {
        float& out = y[(t * f.modules + s) * w.cols + o];
        double sum = double(out);
        for (std::int64_t k = tap_rows.begin; k < tap_rows.end; ++k) {
          const std::int64_t i = k % f.width;
          const std::int64_t c = k / f.width % module_taps;
          const std::int64_t a = k / f.width / module_taps;
          const float* frame = f.frames[t * f.taps + a];
          const std::int64_t module = f.padding + s + c - half;
          sum += double(frame[i * frame_stride + module]) * double(element(w, k, o));
        }
        out = float(sum);
      }
    }
  }
}

}  // namespace scaling::ref
