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

/// Input rows worked on together, at most: 3 panels of them are 27 KiB, half a first-level cache.
/// The convolutions' widest channel count in the paper is 144.
inline constexpr std::int64_t kChunk = 144;
/// Input rows of a chunk. Chunks are equal: a short last one would be mostly loading and storing of
/// sums.
inline std::int64_t chunk_of(std::int64_t rows) {
  const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
  return (rows + chunks - 1) / chunks;
}
/// Modules lie in groups of this many, so that the values of a few modules for consecutive input
/// rows are consecutive cache lines; a row of all modules would put them into a fraction of the
/// cache's sets.
inline constexpr std::int64_t kGroup = 8;
/// Panels side by side, and modules in registers with them: 16 or 24 sums hide the latency of
/// multiply-add and leave room for the panels' weights in 32 registers; with 16 registers 8 sums.
/// Divides kGroup.
inline constexpr int kMaxPanels = kVectorsOfPanel == 1 ? 4 : 1;
template <int kPanels>
inline constexpr int kModuleTile = kVectorsOfPanel == 1   ? (kPanels == 4 ? 4 : 8)
                                   : kVectorsOfPanel == 2 ? 4
                                                          : 2;

/// The left side: value of input row k for module s is at(s)[k * stride].
struct Left {
  const float* a;
  std::int64_t stride;
  std::int64_t group_stride;  ///< from a module to the one kGroup further
  HWY_INLINE const float* at(std::int64_t s) const {
    return a + s / kGroup * group_stride + s % kGroup;
  }
  HWY_INLINE Left from_row(std::int64_t k) const { return {a + k * stride, stride, group_stride}; }
};

/// What the tiles of a chunk ask for while they compute, in two streams: the panels that come next,
/// then memory that is read after all panels; and beside them what other kernels read later. Where
/// nothing is left it is a line that is known already, so that the inner loop has no branch.
template <class T>
struct Coming {
  const T* panels[kMaxPanels] = {};  ///< from each, kPanel weights an input row
  int count = 0;
  const T* known = nullptr;
  const T* later = nullptr;
  const T* later_end = nullptr;
  int shares = 0;  ///< taken of the panels
  Ahead* ahead = nullptr;

  /// Where a tile finds `lines` lines, a share of `split` of a panel.
  HWY_INLINE const T* take(std::int64_t lines, int split) {
    if (shares == count * split) return take_later(lines);
    const T* const start = panels[shares / split] + shares % split * lines * kPanel;
    ++shares;
    return start;
  }
  /// The same of what is read after the panels.
  HWY_INLINE const T* take_later(std::int64_t lines) {
    if (later < later_end) {
      const T* const start = later;
      later += lines * kPanel;
      return start;
    }
    const char* const start =
        ahead ? ahead->take(lines * kPanel * std::int64_t(sizeof(T))) : nullptr;
    return start ? reinterpret_cast<const T*>(start) : known;
  }
};

/// Adds the first n lanes (all of them if there are more) to memory.
HWY_INLINE void add(Vector v, float* to, std::int64_t n) {
  if (HWY_LIKELY(n >= kLanes)) {
    store(hn::Add(load(to), v), to);
  } else if (n > 0) {
    store_first(hn::Add(load_first(to, n), v), to, n);
  }
}

/// y[s * width + j] += sum_{k < rows} left[k * stride + s] right[p][k][j] for kModules modules. At
/// every kEvery-th step it asks for the next line of each of kAsk streams.
template <int kPanels, int kModules, int kAsk, int kEvery, class Right, class T>
HWY_INLINE void tile(const float* left, std::int64_t stride, const Right* const (&right)[kPanels],
                     std::int64_t rows, float* y, std::int64_t width, std::int64_t columns,
                     const T* const (&ask)[kAsk]) {
  Vector sums[kModules][kPanels][kVectorsOfPanel];
  for (auto& module : sums) {
    for (auto& panel : module) {
      for (Vector& v : panel) v = zero();
    }
  }
  const auto step = [&](std::int64_t k) HWY_ATTR {
    Vector w[kPanels][kVectorsOfPanel];
    for (int p = 0; p < kPanels; ++p) {
      for (int v = 0; v < kVectorsOfPanel; ++v) w[p][v] = load(right[p] + k * kPanel + v * kLanes);
    }
    const float* a = left + k * stride;
    for (int s = 0; s < kModules; ++s) {
      const Vector as = broadcast(a[s]);
      for (int p = 0; p < kPanels; ++p) {
        for (int v = 0; v < kVectorsOfPanel; ++v) {
          sums[s][p][v] = hn::MulAdd(as, w[p][v], sums[s][p][v]);
        }
      }
    }
  };
  std::int64_t k = 0, line = 0;
  // Fewer instructions besides the multiply-adds: they compete for the same ports.
  HWY_UNROLL(2)
  for (; k + kEvery <= rows; k += kEvery, line += kPanel) {
    for (int p = 0; p < kAsk; ++p) prefetch_far(ask[p] + line);
    for (int i = 0; i < kEvery; ++i) step(k + i);
  }
  for (; k < rows; ++k) step(k);
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
/// then the rest in smaller tiles.
template <int kPanels, int kModules, int kEvery, class Right, class T>
HWY_INLINE void tiles(Left left, std::int64_t s, std::int64_t modules,
                      const Right* const (&right)[kPanels], std::int64_t rows, float* y,
                      std::int64_t width, std::int64_t columns, Coming<T>& coming) {
  for (; s + kModules <= modules; s += kModules) {
    const T* const line[2] = {coming.take(rows / kEvery, kEvery), coming.take_later(rows / kEvery)};
    tile<kPanels, kModules, 2, kEvery>(left.at(s), left.stride, right, rows, y + s * width, width,
                                       columns, line);
  }
  if constexpr (kModules > 1) {
    constexpr int kSmaller = kModules > 4 ? 4 : kModules / 2;
    tiles<kPanels, kSmaller, kEvery>(left, s, modules, right, rows, y, width, columns, coming);
  }
}

/// All modules. What comes next is asked for as evenly as can be: a burst of requests holds up the
/// loads of the tile that makes it. Where tiles are fewer than panels the first tile asks for all
/// panels at once.
template <int kPanels, class Right, class T>
void all_tiles(Left left, std::int64_t modules, const Right* const (&right)[kPanels],
               std::int64_t rows, float* y, std::int64_t width, std::int64_t columns,
               Coming<T>& coming) {
  constexpr int kModules = kModuleTile<kPanels>;
  if (modules >= 2 * kModules * kPanels) {
    tiles<kPanels, kModules, 2>(left, 0, modules, right, rows, y, width, columns, coming);
    return;
  }
  if (modules >= kModules * kPanels) {
    tiles<kPanels, kModules, 1>(left, 0, modules, right, rows, y, width, columns, coming);
    return;
  }
  const T* ask[kPanels];
  std::copy(coming.panels, coming.panels + kPanels, ask);
  coming.shares = coming.count;
  if (modules >= 4) {
    constexpr int kFirst = std::min(kModules, 4);
    tile<kPanels, kFirst, kPanels, 1>(left.a, left.stride, right, rows, y, width, columns, ask);
    tiles<kPanels, kFirst, 1>(left, kFirst, modules, right, rows, y, width, columns, coming);
  } else {
    tile<kPanels, 1, kPanels, 1>(left.a, left.stride, right, rows, y, width, columns, ask);
    tiles<kPanels, 2, 1>(left, 1, modules, right, rows, y, width, columns, coming);
  }
}

/// Input rows [row, row + rows) against `kPanels` panels from `first`, chunk by chunk, for every
/// token. next: the panel that is streamed after these, or null.
template <int kPanels, class T>
void panels(const WeightView& w, std::int64_t first, std::int64_t row, std::int64_t rows,
            const T* next, Coming<T>& coming, const Left* left, std::int64_t modules, int tokens,
            float* y, std::int64_t last_column) {
  // What several tiles or tokens use is converted once; a single tile converts as it loads.
  const bool convert = !std::is_same_v<T, float> && (modules > kModuleTile<kPanels> || tokens > 1);
  alignas(64) float converted[kPanels * kChunk * kPanel];
  const std::int64_t column = first * kPanel;
  const std::int64_t columns = std::min(kPanels * kPanel, last_column - column);
  const T* const base = static_cast<const T*>(w.data) + (first * w.rows + row) * kPanel;
  const std::int64_t size = chunk_of(rows);
  for (std::int64_t done = 0; done < rows; done += size) {
    const std::int64_t count = std::min(size, rows - done);
    const T* source[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      source[p] = base + (p * w.rows + done) * kPanel;
      const T* const after = next ? next + p * w.rows * kPanel : source[p];
      coming.panels[p] = done + count < rows ? source[p] + size * kPanel : after;
    }
    coming.count = kPanels;
    coming.shares = 0;
    coming.known = source[0];
    float* const to = y + column;
    if (!convert) {
      for (int t = 0; t < tokens; ++t) {
        if (t > 0) std::fill(coming.panels, coming.panels + kPanels, source[0]);
        all_tiles<kPanels>(left[t].from_row(done), modules, source, count,
                           to + t * modules * w.cols, w.cols, columns, coming);
      }
      continue;
    }
    const float* right[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      float* const panel = converted + p * kChunk * kPanel;
      for (std::int64_t i = 0; i < count * kPanel; i += kLanes) {
        store(load(source[p] + i), panel + i);
      }
      right[p] = panel;
    }
    for (int t = 0; t < tokens; ++t) {
      if (t > 0) std::fill(coming.panels, coming.panels + kPanels, source[0]);
      all_tiles<kPanels>(left[t].from_row(done), modules, right, count, to + t * modules * w.cols,
                         w.cols, columns, coming);
    }
  }
}

/// Input rows [row, row + rows) against all panels of `columns`. coming: what is read after them.
template <class T>
void product_typed(const WeightView& w, Range columns, std::int64_t row, std::int64_t rows,
                   Coming<T> coming, const Left* left, std::int64_t modules, int tokens, float* y) {
  const std::int64_t begin = columns.begin / kPanel, end = panel_count(columns.end);
  const bool threes = (end - begin) % 4 != 0 && (end - begin) % 3 == 0;
  const auto start = [&](std::int64_t panel, std::int64_t at) {
    return static_cast<const T*>(w.data) + (panel * w.rows + at) * kPanel;
  };
  for (std::int64_t p = begin; p < end;) {
    const auto run = [&]<int kPanels>() {
      // After the last panels come the first ones again, further down.
      const T* next = nullptr;
      if (p + 2 * kPanels <= end) {
        next = start(p + kPanels, row);
      } else if (row + 2 * rows <= w.rows && begin + kPanels <= end) {
        next = start(begin, row + rows);
      }
      panels<kPanels, T>(w, p, row, rows, next, coming, left, modules, tokens, y, columns.end);
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

/// Stores a vector of modules: whole groups or half vectors of them, `rows * kGroup` apart.
HWY_INLINE void store_groups(Vector v, float* to, std::int64_t group_stride) {
  if constexpr (kLanes > kGroup) {
    const hn::Half<Floats> half;
    hn::StoreU(hn::LowerHalf(v), half, to);
    hn::StoreU(hn::UpperHalf(half, v), half, to + group_stride);
  } else {
    store(v, to);
  }
}

/// The first chunk of the right side, which no tile could ask for.
template <class T>
struct First {
  const T* data;
  std::int64_t rows, panels, panel_stride;
  HWY_INLINE void ask(std::int64_t k) const {
    if (k >= rows) return;
    for (std::int64_t p = 0; p < panels; ++p) prefetch_far(data + p * panel_stride + k * kPanel);
  }
};

/// Row k of module group g, to[(g * rows + k) * kGroup ...], = x[k] d[k][g * kGroup ...]. n:
/// modules.
template <class T>
void scale_rows(const T* d, const float* x, std::int64_t rows, std::int64_t n, float* to,
                const First<T>& first) {
  const std::int64_t group_stride = rows * kGroup;
  for (std::int64_t k = 0; k < rows; ++k, d += n) {
    first.ask(k);
    const Vector factor = broadcast(x[k]);
    std::int64_t s = 0;
    for (; s + kLanes <= n; s += kLanes) {
      float* const at = to + s / kGroup * group_stride + k * kGroup + s % kGroup;
      store_groups(hn::Mul(load(d + s), factor), at, group_stride);
    }
    for (; s < n; ++s) {
      to[s / kGroup * group_stride + k * kGroup + s % kGroup] = x[k] * to_float(d[s]);
    }
  }
}

void Multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns, Ahead* ahead) {
  const std::int64_t modules = d.cols;
  // D scaled by x for a chunk of rows of every token, so that the next chunk's D is asked for while
  // this one is multiplied; kept between calls, one a thread.
  thread_local std::vector<float> scaled;
  const std::int64_t padded = (modules + kGroup - 1) / kGroup * kGroup;
  const std::int64_t chunk = chunk_of(std::max<std::int64_t>(1, inputs.size()));
  const std::int64_t size = chunk * padded;
  if (std::int64_t(scaled.size()) < size * tokens) scaled.resize(std::size_t(size * tokens));
  Left left[kMaxTokens];
  for (std::int64_t row = inputs.begin; row < inputs.end; row += chunk) {
    const std::int64_t rows = std::min(chunk, inputs.end - row);
    const auto run = [&](const auto* d_rows, const auto* end) {
      using T = std::remove_cvref_t<decltype(*d_rows)>;
      const std::int64_t panel = columns.begin / kPanel;
      First<T> first{static_cast<const T*>(e.data) + (panel * e.rows + row) * kPanel, 0,
                     std::min<std::int64_t>(kMaxPanels, panel_count(columns.end) - panel),
                     e.rows * kPanel};
      if (row == inputs.begin) first.rows = rows;
      for (int t = 0; t < tokens; ++t) {
        float* to = scaled.data() + t * size;
        left[t] = {to, kGroup, rows * kGroup};
        scale_rows(d_rows, x + t * e.rows + row, rows, modules, to, first);
        first.rows = 0;
      }
      const T* const later = d_rows + rows * modules;
      Coming<T> coming;
      coming.ahead = ahead;
      coming.later = later;
      coming.later_end = std::min(end, later + chunk * modules);
      product_typed<T>(e, columns, row, rows, coming, left, modules, tokens, y);
    };
    if (d.type == WeightType::f32) {
      run(d.f32() + row * modules, d.f32() + inputs.end * modules);
    } else {
      run(d.half() + row * modules, d.half() + inputs.end * modules);
    }
  }
}

void ModuleConvolution(const WeightView& w, const Frames& f, int module_taps, int tokens, float* y,
                       Range tap_rows, Range columns, Ahead* ahead) {
  const std::int64_t stride = f.modules + 2 * f.padding;
  Left left[kMaxTokens];
  for (std::int64_t row = tap_rows.begin; row < tap_rows.end;) {
    const std::int64_t tap = row / f.width;
    const std::int64_t channel = row % f.width;
    const std::int64_t rows = std::min(f.width - channel, tap_rows.end - row);
    const std::int64_t a = tap / module_taps;
    const std::int64_t shift = f.padding - (module_taps - 1) / 2 + tap % module_taps;
    for (int t = 0; t < tokens; ++t) {
      left[t] = {f.frames[t * f.taps + a] + channel * stride + shift, stride, kGroup};
    }
    const auto run = [&](auto coming) {
      coming.ahead = ahead;
      product_typed(w, columns, row, rows, coming, left, f.modules, tokens, y);
    };
    if (w.type == WeightType::f32) {
      run(Coming<float>());
    } else {
      run(Coming<bf16>());
    }
    row += rows;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling::simd {
HWY_EXPORT(Multiplicative);
HWY_EXPORT(ModuleConvolution);

void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns, Ahead* ahead) {
  HWY_DYNAMIC_DISPATCH(Multiplicative)
  (d, e, x, tokens, y, inputs, columns, ahead);
}

void module_convolution(const WeightView& w, const Frames& frames, int module_taps, int tokens,
                        float* y, Range tap_rows, Range columns, Ahead* ahead) {
  HWY_DYNAMIC_DISPATCH(ModuleConvolution)
  (w, frames, module_taps, tokens, y, tap_rows, columns, ahead);
}
}  // namespace scaling::simd
#endif
