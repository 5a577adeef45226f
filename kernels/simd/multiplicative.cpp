// The multiplicative layer and the module x length convolution: both are a small matrix product
// whose left side (modules) is made on the fly and stays in registers and first-level cache, while
// the right side (weights) streams past once. At the paper's widths they need as long to compute as
// to read, so the next chunk of weights is asked for inside the multiply-add loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/multiplicative.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <vector>

#include "kernels/kernels.h"
#include "kernels/simd/simd.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

/// Input rows worked on together: 4 panels of them are 32 KiB, two thirds of a first-level cache.
inline constexpr std::int64_t kChunk = 128;
/// Left-side values kept for all panels: 64 KiB stay in a second-level cache.
inline constexpr std::int64_t kLeftValues = 16384;
/// Panels side by side, and modules in registers with them: 16 (4 x 4) or 24 (3 x 8) sums hide the
/// latency of multiply-add with 32 registers, 8 with 16.
inline constexpr int kMaxPanels = kVectorsOfPanel == 1 ? 4 : 1;
template <int kPanels>
inline constexpr int kModuleTile = kVectorsOfPanel == 1   ? (kPanels == 4 ? 6 : 8)
                                   : kVectorsOfPanel == 2 ? 4
                                                          : 2;

/// The left side: value of input row k for module s is a[k * stride + s].
struct Left {
  const float* a;
  std::int64_t stride;
};

/// Adds the first n lanes (all of them if there are more) to memory.
HWY_INLINE void add(Vector v, float* to, std::int64_t n) {
  if (HWY_LIKELY(n >= kLanes)) {
    store(hn::Add(load(to), v), to);
  } else if (n > 0) {
    store_first(hn::Add(load_first(to, n), v), to, n);
  }
}

/// y[s * width + j] += sum_{k < rows} left(k, s) right[p][k][j] for kModules modules. ask: kAsk
/// lines of coming weights wanted at each step, `rows` lines apart by panel.
template <int kPanels, int kModules, int kAsk, class T>
HWY_INLINE void tile(Left left, const float* const (&right)[kPanels], std::int64_t rows, float* y,
                     std::int64_t width, std::int64_t columns, const T* const* ask) {
  Vector sums[kModules][kPanels][kVectorsOfPanel];
  for (auto& module : sums) {
    for (auto& panel : module) {
      for (Vector& v : panel) v = zero();
    }
  }
  for (std::int64_t k = 0; k < rows; ++k) {
    for (int p = 0; p < kAsk; ++p) prefetch(ask[p] + k * kPanel);
    Vector w[kPanels][kVectorsOfPanel];
    for (int p = 0; p < kPanels; ++p) {
      for (int v = 0; v < kVectorsOfPanel; ++v) w[p][v] = load(right[p] + k * kPanel + v * kLanes);
    }
    const float* a = left.a + k * left.stride;
    for (int s = 0; s < kModules; ++s) {
      const Vector as = broadcast(a[s]);
      for (int p = 0; p < kPanels; ++p) {
        for (int v = 0; v < kVectorsOfPanel; ++v) {
          sums[s][p][v] = hn::MulAdd(as, w[p][v], sums[s][p][v]);
        }
      }
    }
  }
  const bool whole = columns == kPanels * kPanel;
  for (int s = 0; s < kModules; ++s) {
    for (int p = 0; p < kPanels; ++p) {
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        const std::int64_t j = p * kPanel + v * kLanes;
        add(sums[s][p][v], y + s * width + j, whole ? kLanes : columns - j);
      }
    }
  }
}

/// Modules [s, modules) against kPanels panels for one chunk of input rows, kModules at a time,
/// then the rest in smaller tiles. ask: lines of coming weights, one panel of them for each tile in
/// turn; after the last panel, and for later tiles, a line that is known already, so that the inner
/// loop has no branch.
template <int kPanels, int kModules, class T>
HWY_INLINE void tiles(Left left, std::int64_t s, std::int64_t modules,
                      const float* const (&right)[kPanels], std::int64_t rows, float* y,
                      std::int64_t width, std::int64_t columns, const T* const* ask,
                      const T* const* last_ask) {
  for (; s + kModules <= modules; s += kModules) {
    tile<kPanels, kModules, 1, T>({left.a + s, left.stride}, right, rows, y + s * width, width,
                                  columns, ask);
    if (ask < last_ask) ++ask;
  }
  if constexpr (kModules > 1) {
    constexpr int kSmaller = kModules > 4 ? 4 : kModules / 2;
    tiles<kPanels, kSmaller, T>(left, s, modules, right, rows, y, width, columns, ask, last_ask);
  }
}

/// All modules. Where tiles are fewer than panels the first tile asks for all panels at once.
template <int kPanels, class T>
void all_tiles(Left left, std::int64_t modules, const float* const (&right)[kPanels],
               std::int64_t rows, float* y, std::int64_t width, std::int64_t columns,
               const T* const (&ask)[kPanels + 1]) {
  constexpr int kModules = kModuleTile<kPanels>;
  const T* const* const last = ask + kPanels;
  if (modules >= kModules * kPanels) {
    tiles<kPanels, kModules, T>(left, 0, modules, right, rows, y, width, columns, ask, last);
  } else if (modules >= 4) {
    constexpr int kFirst = std::min(kModules, 4);
    tile<kPanels, kFirst, kPanels, T>(left, right, rows, y, width, columns, ask);
    tiles<kPanels, kModules, T>(left, kFirst, modules, right, rows, y, width, columns, last, last);
  } else {
    tile<kPanels, 1, kPanels, T>(left, right, rows, y, width, columns, ask);
    tiles<kPanels, 2, T>(left, 1, modules, right, rows, y, width, columns, last, last);
  }
}

/// Input rows [row, row + rows) against `kPanels` panels from `first`, chunk by chunk, for every
/// token. coming: the panel that is streamed after these, or null.
template <int kPanels, class T>
void panels(const WeightView& w, std::int64_t first, std::int64_t row, std::int64_t rows,
            const T* coming, const Left* left, std::int64_t modules, int tokens, float* y,
            std::int64_t last_column) {
  alignas(64) float converted[std::is_same_v<T, float> ? 1 : kPanels * kChunk * kPanel];
  const std::int64_t column = first * kPanel;
  const std::int64_t columns = std::min(kPanels * kPanel, last_column - column);
  const T* const base = static_cast<const T*>(w.data) + (first * w.rows + row) * kPanel;
  for (std::int64_t done = 0; done < rows; done += kChunk) {
    const std::int64_t count = std::min(kChunk, rows - done);
    const float* right[kPanels];
    const T* ask[kPanels + 1];
    for (int p = 0; p < kPanels; ++p) {
      const T* source = base + p * w.rows * kPanel + done * kPanel;
      if (done + count < rows) {
        ask[p] = source + kChunk * kPanel;
      } else {
        ask[p] = coming ? coming + p * w.rows * kPanel : source;
      }
      if constexpr (std::is_same_v<T, float>) {
        right[p] = source;
      } else {
        float* to = converted + p * kChunk * kPanel;
        for (std::int64_t i = 0; i < count * kPanel; i += kLanes) store(load(source + i), to + i);
        right[p] = to;
      }
    }
    ask[kPanels] = base + done * kPanel;
    for (int t = 0; t < tokens; ++t) {
      const Left at = {left[t].a + done * left[t].stride, left[t].stride};
      if (t > 0) std::fill(ask, ask + kPanels, ask[kPanels]);
      all_tiles<kPanels, T>(at, modules, right, count, y + t * modules * w.cols + column, w.cols,
                            columns, ask);
    }
  }
}

/// Input rows [row, row + rows) against all panels of `columns`.
template <class T>
void product_typed(const WeightView& w, Range columns, std::int64_t row, std::int64_t rows,
                   const Left* left, std::int64_t modules, int tokens, float* y) {
  const std::int64_t begin = columns.begin / kPanel, end = panel_count(columns.end);
  const bool threes = (end - begin) % 4 != 0 && (end - begin) % 3 == 0;
  const auto start = [&](std::int64_t panel, std::int64_t at) {
    return static_cast<const T*>(w.data) + (panel * w.rows + at) * kPanel;
  };
  for (std::int64_t p = begin; p < end;) {
    const auto run = [&]<int kPanels>() {
      // After the last panels come the first ones again, further down.
      const T* coming = nullptr;
      if (p + 2 * kPanels <= end) {
        coming = start(p + kPanels, row);
      } else if (row + rows + kChunk <= w.rows && begin + kPanels <= end) {
        coming = start(begin, row + rows);
      }
      panels<kPanels, T>(w, p, row, rows, coming, left, modules, tokens, y, columns.end);
      p += kPanels;
    };
    if constexpr (kMaxPanels == 4) {
      const std::int64_t rest = end - p;
      if (rest >= 4 && !threes) {
        run.template operator()<4>();
      } else if (rest >= 3) {
        run.template operator()<3>();
      } else if (rest == 2) {
        run.template operator()<2>();
      } else {
        run.template operator()<1>();
      }
    } else {
      run.template operator()<1>();
    }
  }
}

void product(const WeightView& w, Range columns, std::int64_t row, std::int64_t rows,
             const Left* left, std::int64_t modules, int tokens, float* y) {
  if (w.type == WeightType::f32) {
    product_typed<float>(w, columns, row, rows, left, modules, tokens, y);
  } else {
    product_typed<bf16>(w, columns, row, rows, left, modules, tokens, y);
  }
}

/// to[k][s] = x[k] d[k][s] for `rows` rows of n values.
template <class T>
void scale_rows(const T* d, const float* x, std::int64_t rows, std::int64_t n, float* to) {
  for (std::int64_t k = 0; k < rows; ++k, d += n, to += n) {
    const Vector factor = broadcast(x[k]);
    std::int64_t s = 0;
    for (; s + kLanes <= n; s += kLanes) {
      prefetch(d + s + kAhead<T>);
      store(hn::Mul(load(d + s), factor), to + s);
    }
    for (; s < n; ++s) to[s] = x[k] * to_float(d[s]);
  }
}

void Multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns) {
  const std::int64_t modules = d.cols;
  // D scaled by x for some rows of every token; kept between calls, one a thread.
  thread_local std::vector<float> scaled;
  const std::int64_t fit = kLeftValues / (modules * tokens) / kChunk * kChunk;
  const std::int64_t most = std::max(kChunk, fit);
  const std::int64_t size = most * modules;
  if (std::int64_t(scaled.size()) < size * tokens) scaled.resize(std::size_t(size * tokens));
  Left left[kMaxTokens];
  for (std::int64_t row = inputs.begin; row < inputs.end; row += most) {
    const std::int64_t rows = std::min(most, inputs.end - row);
    for (int t = 0; t < tokens; ++t) {
      float* to = scaled.data() + t * size;
      left[t] = {to, modules};
      const float* const xs = x + t * e.rows + row;
      if (d.type == WeightType::f32) {
        scale_rows(d.f32() + row * modules, xs, rows, modules, to);
      } else {
        scale_rows(d.half() + row * modules, xs, rows, modules, to);
      }
    }
    product(e, columns, row, rows, left, modules, tokens, y);
  }
}

void ModuleConvolution(const WeightView& w, const Frames& f, int module_taps, int tokens, float* y,
                       Range tap_rows) {
  const std::int64_t stride = f.modules + 2 * f.padding;
  Left left[kMaxTokens];
  for (std::int64_t row = tap_rows.begin; row < tap_rows.end;) {
    const std::int64_t tap = row / f.width;
    const std::int64_t channel = row % f.width;
    const std::int64_t rows = std::min(f.width - channel, tap_rows.end - row);
    const std::int64_t a = tap / module_taps;
    const std::int64_t shift = f.padding - (module_taps - 1) / 2 + tap % module_taps;
    for (int t = 0; t < tokens; ++t) {
      left[t] = {f.frames[t * f.taps + a] + channel * stride + shift, stride};
    }
    product(w, {0, w.cols}, row, rows, left, f.modules, tokens, y);
    row += rows;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling::simd {
HWY_EXPORT(Multiplicative);
HWY_EXPORT(ModuleConvolution);

void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns) {
  HWY_DYNAMIC_DISPATCH(Multiplicative)(d, e, x, tokens, y, inputs, columns);
}

void module_convolution(const WeightView& w, const Frames& frames, int module_taps, int tokens,
                        float* y, Range tap_rows) {
  HWY_DYNAMIC_DISPATCH(ModuleConvolution)(w, frames, module_taps, tokens, y, tap_rows);
}
}  // namespace scaling::simd
#endif
