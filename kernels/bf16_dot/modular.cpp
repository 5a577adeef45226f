// The multiplicative layer and the module x length convolution with twice the multiply-adds an
// instruction. Both are a small matrix product whose left side (modules) is made on the fly. The
// instruction sums over two neighbours, so input rows go in pairs: two rows of a panel are 64
// contiguous bytes, which one permutation brings into pairs.
#include "kernels/bf16_dot/bf16_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/bf16_dot/target.h"
#include "kernels/simd/simd.h"

namespace scaling::bf16_dot {
namespace {

constexpr std::int64_t kLanes = 16;
/// Modules and panels of a tile: 24 sums, three panels' weights and a left value in 32 registers.
constexpr std::int64_t kModules = 8;
constexpr int kMaxPanels = 3;
/// Input rows worked on together: three panels of them take half of a first-level cache.
constexpr std::int64_t kMostRows = 128, kFewestRows = 32;
/// Left side of all tokens: a share of a second-level cache.
constexpr std::int64_t kLeftBytes = 256 << 10;
constexpr std::int64_t kLine = 64;

struct alignas(kLine) Line {
  std::uint32_t pairs[kLanes];
};

/// Left values of one token: the bf16 of input rows 2i and 2i + 1 for module s are lower and upper
/// half of pairs[i * stride + s]; zero from the last module on.
struct Left {
  const std::uint32_t* pairs;
  std::int64_t stride;
};

/// What a tile asks memory for while it computes: `lines` lines from each of `panels` addresses,
/// `more_lines` from `more`.
struct Ask {
  const char* panel[kMaxPanels] = {};
  int panels = 0;
  std::int64_t lines = 0;
  const char* more = nullptr;
  std::int64_t more_lines = 0;

  SCALING_BF16 inline __attribute__((always_inline)) void at(std::int64_t line) const {
    if (line < lines) {
      for (int p = 0; p < panels; ++p) __builtin_prefetch(panel[p] + line * kLine);
    }
    if (line < more_lines) __builtin_prefetch(more + line * kLine);
  }
};

/// Two halves of 16 values in pairs: 0, 16, 1, 17, ...
SCALING_BF16 inline __m512i paired(__m512i halves) {
  alignas(kLine) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves);
}

/// Rounded, `even` in the lower halves.
SCALING_BF16 inline __m512i paired(__m512 even, __m512 odd) {
  const __m512bh halves = _mm512_cvtne2ps_pbh(odd, even);
  __m512i bits;
  std::memcpy(&bits, &halves, sizeof bits);
  return paired(bits);
}

template <int kPanels>
SCALING_BF16 inline __attribute__((always_inline)) void add_pair(
    const std::uint32_t* left, const __m512i (&weights)[kPanels],
    __m512 (&sums)[kModules][kPanels]) {
  __m512bh w[kPanels];
  for (int p = 0; p < kPanels; ++p) {
    const __m512i pairs = paired(weights[p]);
    std::memcpy(&w[p], &pairs, sizeof pairs);
  }
  for (std::int64_t s = 0; s < kModules; ++s) {
    const __m512i both = _mm512_set1_epi32(int(left[s]));
    __m512bh a;
    std::memcpy(&a, &both, sizeof both);
    for (int p = 0; p < kPanels; ++p) sums[s][p] = _mm512_dpbf16_ps(sums[s][p], w[p], a);
  }
}

/// y[s * width + p * kPanel + j] += sum_k left[k][s] right[p][k][j] over `rows` rows, for the first
/// `modules` modules and `columns` columns of the tile.
template <int kPanels>
SCALING_BF16 void tile(const std::uint32_t* left, std::int64_t stride, const bf16* const* right,
                       std::int64_t rows, float* y, std::int64_t width, std::int64_t modules,
                       std::int64_t columns, const Ask& ask) {
  __m512 sums[kModules][kPanels];
  for (auto& module : sums) {
    for (__m512& sum : module) sum = _mm512_setzero_ps();
  }
  __m512i w[kPanels];
  for (std::int64_t i = 0; i < rows / 2; ++i) {
    ask.at(i);
    for (int p = 0; p < kPanels; ++p) w[p] = _mm512_loadu_si512(right[p] + 2 * i * kPanel);
    add_pair<kPanels>(left + i * stride, w, sums);
  }
  if (rows % 2 == 1) {
    // The last row has a lower half only.
    for (int p = 0; p < kPanels; ++p) {
      w[p] = _mm512_maskz_loadu_epi32(0xff, right[p] + (rows - 1) * kPanel);
    }
    add_pair<kPanels>(left + rows / 2 * stride, w, sums);
  }
  for (std::int64_t s = 0; s < std::min(modules, kModules); ++s) {
    for (int p = 0; p < kPanels; ++p) {
      float* const to = y + s * width + p * kPanel;
      const __mmask16 mask = first_lanes(columns - p * kPanel);
      _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums[s][p]));
    }
  }
}

/// Left sides of all tokens for as many input rows as are worked on together. One a thread: the
/// memory is kept between calls.
class LeftSides {
 public:
  LeftSides(std::int64_t modules, int tokens)
      : modules_(modules),
        tokens_(tokens),
        // A line more than needed, so that consecutive pairs do not share few sets of the cache.
        stride_(((modules + kLanes - 1) / kLanes + 1) * kLanes) {
    const std::int64_t fit = kLeftBytes / (2 * std::int64_t(sizeof(bf16)) * stride_ * tokens) * 2;
    most_rows_ = std::clamp(fit, kFewestRows, kMostRows);
    const auto lines = std::size_t(tokens * most_rows_ / 2 * stride_ / kLanes);
    if (lines_.size() < lines) lines_.resize(lines);
  }

  std::int64_t modules() const { return modules_; }
  int tokens() const { return tokens_; }
  std::int64_t stride() const { return stride_; }
  std::uint32_t* of(int token) const {
    return reinterpret_cast<std::uint32_t*>(lines_.data()) + token * most_rows_ / 2 * stride_;
  }
  /// Input rows of each of the fewest equal chunks of `rows`, an even number.
  std::int64_t chunk_of(std::int64_t rows) const {
    const std::int64_t chunks = (rows + most_rows_ - 1) / most_rows_;
    return ((rows + chunks - 1) / std::max<std::int64_t>(chunks, 1) + 1) / 2 * 2;
  }

 private:
  static thread_local std::vector<Line> lines_;

  std::int64_t modules_;
  int tokens_;
  std::int64_t stride_, most_rows_;
};

thread_local std::vector<Line> LeftSides::lines_;

/// Bytes that are read after a product, one after another.
struct Later {
  const void* data = nullptr;
  std::int64_t bytes = 0;
};

/// A group of panels for all tokens. ask.lines and more_lines: of all tiles together.
template <int kPanels>
void add_group(const bf16* const* right, std::int64_t rows, const LeftSides& left, float* y,
               std::int64_t width, std::int64_t columns, Ask ask) {
  const std::int64_t tiles = left.tokens() * ((left.modules() + kModules - 1) / kModules);
  ask.lines = (ask.lines + tiles - 1) / tiles;
  ask.more_lines = (ask.more_lines + tiles - 1) / tiles;
  for (int t = 0; t < left.tokens(); ++t) {
    for (std::int64_t s = 0; s < left.modules(); s += kModules) {
      tile<kPanels>(left.of(t) + s, left.stride(), right, rows,
                    y + (t * left.modules() + s) * width, width, left.modules() - s, columns, ask);
      for (int p = 0; p < ask.panels; ++p) ask.panel[p] += ask.lines * kLine;
      ask.more += ask.more_lines * kLine;
    }
  }
}

/// Adds input rows [row, row + rows) against `columns`. next_rows from next_row on follow, and of
/// another matrix `later`.
void add_product(const WeightView& w, Range columns, std::int64_t row, std::int64_t rows,
                 std::int64_t next_row, std::int64_t next_rows, const Later& later,
                 const LeftSides& left, float* y) {
  const std::int64_t begin = columns.begin / kPanel, panels = panel_count(columns.end) - begin;
  const std::int64_t groups = (panels + kMaxPanels - 1) / kMaxPanels;
  const auto at = [&](std::int64_t panel, std::int64_t r) {
    return w.half() + (panel * w.rows + r) * kPanel;
  };
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto group_of = [&](std::int64_t i) {
      return Range{begin + panels * i / groups, begin + panels * (i + 1) / groups};
    };
    const Range own = group_of(g), next = group_of((g + 1) % groups);
    const bf16* right[kMaxPanels] = {};
    for (std::int64_t p = 0; p < own.size(); ++p) right[p] = at(own.begin + p, row);
    Ask ask;
    const bool last = g + 1 == groups;
    ask.panels = int(next.size());
    ask.lines = (last ? next_rows : rows) * kPanel * std::int64_t(sizeof(bf16)) / kLine;
    for (int p = 0; p < ask.panels; ++p) {
      ask.panel[p] = reinterpret_cast<const char*>(at(next.begin + p, last ? next_row : row));
    }
    ask.more_lines = later.bytes / kLine / groups;
    ask.more = static_cast<const char*>(later.data) + g * ask.more_lines * kLine;
    const std::int64_t column = own.begin * kPanel;
    const std::int64_t count = columns.end - column;
    switch (own.size()) {
      case 1:
        add_group<1>(right, rows, left, y + column, w.cols, count, ask);
        break;
      case 2:
        add_group<2>(right, rows, left, y + column, w.cols, count, ask);
        break;
      default:
        add_group<3>(right, rows, left, y + column, w.cols, count, ask);
    }
  }
}

/// Sixteen values of row k of d, scaled by x; zero where the mask has none.
SCALING_BF16 inline __m512 scaled(const bf16* d, __mmask16 mask, float x) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, d));
  return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)), _mm512_set1_ps(x));
}

/// Left side of `rows` input rows: x[k] d[k][s].
SCALING_BF16 void scale_rows(const bf16* d, const float* x, std::int64_t rows, std::int64_t modules,
                             std::uint32_t* to, std::int64_t stride) {
  for (std::int64_t k = 0; k < rows; k += 2, d += 2 * modules, to += stride) {
    const bool both = k + 1 < rows;
    for (std::int64_t s = 0; s < modules; s += kLanes) {
      const __mmask16 mask = first_lanes(modules - s);
      const __m512 even = scaled(d + s, mask, x[k]);
      const __m512 odd = both ? scaled(d + modules + s, mask, x[k + 1]) : _mm512_setzero_ps();
      _mm512_store_si512(to + s, paired(even, odd));
    }
  }
}

/// Left side of `rows` channels of a frame, `frame_stride` apart.
SCALING_BF16 void pair_channels(const float* frame, std::int64_t frame_stride, std::int64_t rows,
                                std::int64_t modules, std::uint32_t* to, std::int64_t stride) {
  for (std::int64_t k = 0; k < rows; k += 2, frame += 2 * frame_stride, to += stride) {
    for (std::int64_t s = 0; s < modules; s += kLanes) {
      const __mmask16 mask = first_lanes(modules - s),
                      odd_mask = k + 1 < rows ? mask : __mmask16(0);
      const __m512 even = _mm512_maskz_loadu_ps(mask, frame + s);
      const __m512 odd = _mm512_maskz_loadu_ps(odd_mask, frame + frame_stride + s);
      _mm512_store_si512(to + s, paired(even, odd));
    }
  }
}

}  // namespace

void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns) {
  if (d.type != WeightType::bf16) {
    return simd::multiplicative(d, e, x, tokens, y, inputs, columns);
  }
  const LeftSides left(d.cols, tokens);
  const std::int64_t size = left.chunk_of(inputs.size());
  for (std::int64_t row = inputs.begin; row < inputs.end; row += size) {
    const std::int64_t rows = std::min(size, inputs.end - row), next = row + rows;
    const std::int64_t next_rows = std::min(size, inputs.end - next);
    for (int t = 0; t < tokens; ++t) {
      scale_rows(d.half() + row * d.cols, x + t * d.rows + row, rows, d.cols, left.of(t),
                 left.stride());
    }
    const Later more_modules = {d.half() + next * d.cols, next_rows * d.cols * 2};
    add_product(e, columns, row, rows, next, next_rows, more_modules, left, y);
  }
}

void module_convolution(const WeightView& w, const Frames& f, int module_taps, int tokens, float* y,
                        Range tap_rows) {
  if (w.type != WeightType::bf16) {
    return simd::module_convolution(w, f, module_taps, tokens, y, tap_rows);
  }
  const LeftSides left(f.modules, tokens);
  const std::int64_t frame_stride = f.modules + 2 * f.padding, size = left.chunk_of(f.width);
  // No chunk goes beyond a tap: the next one has another frame or another shift.
  const auto rows_from = [&](std::int64_t row) {
    return std::min({size, f.width - row % f.width, tap_rows.end - row});
  };
  for (std::int64_t row = tap_rows.begin; row < tap_rows.end;) {
    const std::int64_t rows = rows_from(row), next = row + rows;
    const std::int64_t tap = row / f.width, channel = row % f.width;
    const std::int64_t shift = f.padding - (module_taps - 1) / 2 + tap % module_taps;
    for (int t = 0; t < tokens; ++t) {
      const float* const frame = f.frames[t * f.taps + tap / module_taps];
      pair_channels(frame + channel * frame_stride + shift, frame_stride, rows, f.modules,
                    left.of(t), left.stride());
    }
    add_product(w, {0, w.cols}, row, rows, next, next < tap_rows.end ? rows_from(next) : 0, {},
                left, y);
    row = next;
  }
}

}  // namespace scaling::bf16_dot
#endif
