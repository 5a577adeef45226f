// The multiplicative layer and the module x length convolution with bf16 products. Both are a small
// matrix product whose left side (modules) is made on the fly. The instructions sum over two
// neighbours, so input rows go in pairs: two rows of a panel are 64 contiguous bytes, which one
// permutation brings into pairs. By tiles where the processor has them, else by vectors.
#include "kernels/bf16_dot/bf16_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/bf16_dot/left_side.h"
#include "kernels/bf16_dot/target.h"
#include "kernels/bf16_dot/tiles.h"
#include "kernels/simd/simd.h"

namespace scaling::bf16_dot {
namespace {

/// Modules and panels of a vector's tile: 24 sums, three panels' weights and a left value in 32
/// registers.
constexpr std::int64_t kModules = 8;
constexpr int kMaxPanels = 3;
/// With fewer modules reading takes the time, not multiplying, and simd reads faster.
constexpr std::int64_t kFewestModules = 8;
/// Three panels of 128 rows take half of a first-level cache.
constexpr RowChoice kVectorRows = {2, 32, 128};

RowChoice rows_together() { return uses_tiles() ? kTileRows : kVectorRows; }

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

/// Bytes that are read after a product, one after another.
struct Later {
  const void* data = nullptr;
  std::int64_t bytes = 0;
};

/// The next of what other kernels read.
Later from(Ahead* ahead, std::int64_t bytes) {
  const char* const start = ahead ? ahead->take(bytes) : nullptr;
  return start ? Later{start, bytes} : Later{};
}

/// A group of panels for all tokens. ask.lines and more_lines: of all tiles together.
template <int kPanels>
void add_group(const bf16* const* right, std::int64_t rows, const LeftSides& left, float* y,
               std::int64_t width, std::int64_t columns, Ask ask) {
  ask = ask.share_of(left.tokens() * ((left.modules() + kModules - 1) / kModules));
  for (int t = 0; t < left.tokens(); ++t) {
    for (std::int64_t s = 0; s < left.modules(); s += kModules) {
      tile<kPanels>(left.of(t) + s, left.stride(), right, rows,
                    y + (t * left.modules() + s) * width, width, left.modules() - s, columns, ask);
      ask.go_on();
    }
  }
}

/// Adds input rows [row, row + rows) against `columns`. next_rows from next_row on follow, and of
/// another matrix `later`. tiles: null for vectors.
void add_product(const WeightView& w, Range columns, std::int64_t row, std::int64_t rows,
                 std::int64_t next_row, std::int64_t next_rows, const Later& later,
                 const LeftSides& left, Tiles* tiles, float* y) {
  const std::int64_t begin = columns.begin / kPanel, panels = panel_count(columns.end) - begin;
  const int most = tiles ? kTilePanels : kMaxPanels;
  const std::int64_t groups = (panels + most - 1) / most;
  if (groups == 0) return;
  const auto at = [&](std::int64_t panel, std::int64_t r) {
    return w.half() + (panel * w.rows + r) * kPanel;
  };
  const auto group_of = [&](std::int64_t i) {
    return Range{begin + panels * i / groups, begin + panels * (i + 1) / groups};
  };
  const auto ask_for = [&](Range group, std::int64_t from, std::int64_t count) {
    Ask ask;
    ask.panels = int(group.size());
    ask.lines = count * kPanel * std::int64_t(sizeof(bf16)) / kLine;
    for (int p = 0; p < ask.panels; ++p) {
      ask.panel[p] = reinterpret_cast<const char*>(at(group.begin + p, from));
    }
    return ask;
  };
  if (tiles) tiles->take(left, rows, ask_for(group_of(0), row, rows));
  for (std::int64_t g = 0; g < groups; ++g) {
    const Range own = group_of(g);
    const bf16* right[kMaxPanels] = {};
    for (std::int64_t p = 0; p < own.size(); ++p) right[p] = at(own.begin + p, row);
    // Tiles ask for their first group themselves.
    Ask ask;
    if (g + 1 < groups) {
      ask = ask_for(group_of(g + 1), row, rows);
    } else if (!tiles) {
      ask = ask_for(group_of(0), next_row, next_rows);
    }
    ask.more_lines = later.bytes / kLine / groups;
    ask.more = static_cast<const char*>(later.data) + g * ask.more_lines * kLine;
    const std::int64_t column = own.begin * kPanel;
    const std::int64_t count = columns.end - column;
    if (tiles) {
      tiles->add_group(right, int(own.size()), rows, left, y + column, w.cols, count, ask);
      continue;
    }
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

Tiles* pointer(std::optional<Tiles>& tiles) { return tiles ? &*tiles : nullptr; }

}  // namespace

void multiplicative(const WeightView& d, const WeightView& e, const float* x, int tokens, float* y,
                    Range inputs, Range columns, Ahead* ahead) {
  if (d.type != WeightType::bf16 || d.cols < kFewestModules) {
    return simd::multiplicative(d, e, x, tokens, y, inputs, columns, ahead);
  }
  const LeftSides left(d.cols, tokens, rows_together());
  std::optional<Tiles> tiles;
  if (uses_tiles()) tiles.emplace();
  const std::int64_t size = left.chunk_of(inputs.size());
  for (std::int64_t row = inputs.begin; row < inputs.end; row += size) {
    const std::int64_t rows = std::min(size, inputs.end - row), next = row + rows;
    const std::int64_t next_rows = std::min(size, inputs.end - next);
    for (int t = 0; t < tokens; ++t) {
      left.scale_rows(t, d.half() + row * d.cols, x + t * d.rows + row, rows);
    }
    const Later later = next_rows > 0 ? Later{d.half() + next * d.cols, next_rows * d.cols * 2}
                                      : from(ahead, rows * columns.size() * 2);
    add_product(e, columns, row, rows, next, next_rows, later, left, pointer(tiles), y);
  }
}

void module_convolution(const WeightView& w, const Frames& f, int module_taps, int tokens, float* y,
                        Range tap_rows, Range columns, Ahead* ahead) {
  if (w.type != WeightType::bf16) {
    return simd::module_convolution(w, f, module_taps, tokens, y, tap_rows, columns, ahead);
  }
  const LeftSides left(f.modules, tokens, rows_together());
  std::optional<Tiles> tiles;
  if (uses_tiles()) tiles.emplace();
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
      left.take_channels(t, frame + channel * frame_stride + shift, frame_stride, rows);
    }
    const Later later = from(ahead, rows * columns.size() * 2);
    add_product(w, columns, row, rows, next, next < tap_rows.end ? rows_from(next) : 0, later, left,
                pointer(tiles), y);
    row = next;
  }
}

}  // namespace scaling::bf16_dot
#endif
