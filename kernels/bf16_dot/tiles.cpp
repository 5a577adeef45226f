// AMX by intrinsics: loading, multiplying and storing tiles, and bringing both sides of a product
// into them.
#include "kernels/bf16_dot/tiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#define SCALING_TILES \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

namespace scaling::bf16_dot {
namespace {

/// Sums in registers 0 to 3, left sides in 4 and 5, right sides in 6 and 7; all of this size.
constexpr std::int64_t kHeight = 16, kPairs = 16;
constexpr std::int64_t kTile = kHeight * kPairs;  ///< pairs, or f32 sums
constexpr int kRowBytes = 64;
/// Modules' tiles that meet a group of panels together.
constexpr std::int64_t kModuleTiles = 2;

struct Memory {
  std::vector<Line> left, right;
  alignas(kLine) float sums[kModuleTiles * kTilePanels][kTile];
};
thread_local Memory memory;

std::atomic<bool> wanted = true;

/// The instructions that load and store tiles tell the compiler nothing about memory.
void settle() { std::atomic_signal_fence(std::memory_order_seq_cst); }

std::uint32_t* at_tile(std::vector<Line>& lines, std::int64_t tile) {
  return lines[std::size_t(tile * kHeight)].pairs;
}

void make_room(std::vector<Line>& lines, std::int64_t tiles) {
  const auto size = std::size_t(tiles * kHeight);
  if (lines.size() < size) lines.resize(size);
}

std::int64_t tiles_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

struct alignas(kLine) Shape {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(Shape) == 64);

SCALING_TILES void configure() {
  Shape shape;
  for (int tile = 0; tile < 8; ++tile) {
    shape.row_bytes[tile] = kRowBytes;
    shape.rows[tile] = kHeight;
  }
  settle();
  _tile_loadconfig(&shape);
}

SCALING_TILES void release() { _tile_release(); }

/// Line i of `from`, `stride` pairs after line i - 1, holds pair i of 16 modules; row s of the tile
/// holds the pairs of module s. Pairs from `count` on are zero.
SCALING_TILES void transpose(const std::uint32_t* from, std::int64_t stride, std::int64_t count,
                             std::uint32_t* to) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; ++i) {
    a[i] = i < count ? _mm512_loadu_si512(from + i * stride) : _mm512_setzero_si512();
  }
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  // a[4 g + j], quarter q: module 4 q + j of lines 4 g to 4 g + 3.
  for (int g = 0; g < 16; g += 4) {
    a[g] = _mm512_unpacklo_epi64(b[g], b[g + 2]);
    a[g + 1] = _mm512_unpackhi_epi64(b[g], b[g + 2]);
    a[g + 2] = _mm512_unpacklo_epi64(b[g + 1], b[g + 3]);
    a[g + 3] = _mm512_unpackhi_epi64(b[g + 1], b[g + 3]);
  }
  for (int j = 0; j < 4; ++j) {
    // Quarters 0 and 2, and 1 and 3, of two groups of lines each.
    const __m512i even_low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xdd);
    const __m512i even_high = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
    const __m512i odd_high = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xdd);
    _mm512_store_si512(to + j * kPairs, _mm512_shuffle_i32x4(even_low, even_high, 0x88));
    _mm512_store_si512(to + (4 + j) * kPairs, _mm512_shuffle_i32x4(odd_low, odd_high, 0x88));
    _mm512_store_si512(to + (8 + j) * kPairs, _mm512_shuffle_i32x4(even_low, even_high, 0xdd));
    _mm512_store_si512(to + (12 + j) * kPairs, _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd));
  }
}

/// `rows` rows of a panel as tiles, one after another: line i has rows 2 i and 2 i + 1 in pairs.
/// What is missing of the last tile is zero.
SCALING_TILES void pair_rows(const bf16* panel, std::int64_t rows, std::uint32_t* to) {
  const std::int64_t whole = rows / 2;
  std::int64_t i = 0;
  for (; i < whole; ++i) {
    _mm512_store_si512(to + i * kPairs, paired(_mm512_loadu_si512(panel + 2 * i * kPanel)));
  }
  if (rows % 2 == 1) {
    const __m512i last = _mm512_maskz_loadu_epi32(0xff, panel + (rows - 1) * kPanel);
    _mm512_store_si512(to + i * kPairs, paired(last));
    ++i;
  }
  for (; i < tiles_of(rows, 2 * kPairs) * kPairs; ++i) {
    _mm512_store_si512(to + i * kPairs, _mm512_setzero_si512());
  }
}

/// Sums of kModules tiles of modules against kPanels panels over `steps` tiles of input rows.
/// left: of the first tile of modules, those of the others `steps` tiles on each; right likewise.
template <int kModules, int kPanels>
SCALING_TILES void multiply(const std::uint32_t* left, const std::uint32_t* right,
                            std::int64_t steps, const Ask& ask, float (&sums)[4][kTile]) {
  _tile_zero(0);
  if constexpr (kPanels == 2) _tile_zero(1);
  if constexpr (kModules == 2) _tile_zero(2);
  if constexpr (kModules == 2 && kPanels == 2) _tile_zero(3);
  const std::int64_t lines = tiles_of(std::max(ask.lines, ask.more_lines), steps);
  for (std::int64_t k = 0; k < steps; ++k) {
    _tile_loadd(4, left + k * kTile, kRowBytes);
    _tile_loadd(6, right + k * kTile, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kPanels == 2) {
      _tile_loadd(7, right + (steps + k) * kTile, kRowBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kModules == 2) {
      _tile_loadd(5, left + (steps + k) * kTile, kRowBytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kPanels == 2) _tile_dpbf16ps(3, 5, 7);
    }
    for (std::int64_t line = k * lines; line < (k + 1) * lines; ++line) ask.at(line);
  }
  _tile_stored(0, sums[0], kRowBytes);
  if constexpr (kPanels == 2) _tile_stored(1, sums[1], kRowBytes);
  if constexpr (kModules == 2) _tile_stored(2, sums[2], kRowBytes);
  if constexpr (kModules == 2 && kPanels == 2) _tile_stored(3, sums[3], kRowBytes);
  settle();
}

/// Adds a tile of sums to y, `width` floats a row: the first `modules` rows, `columns` columns.
SCALING_TILES void add_sums(const float* sums, float* y, std::int64_t width, std::int64_t modules,
                            std::int64_t columns) {
  const __mmask16 mask = first_lanes(columns);
  for (std::int64_t s = 0; s < std::min(modules, kHeight); ++s) {
    float* const to = y + s * width;
    const __m512 sum =
        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), _mm512_load_ps(sums + s * kPairs));
    _mm512_mask_storeu_ps(to, mask, sum);
  }
}

}  // namespace

bool has_tiles() {
  static const bool has = [] {
    constexpr unsigned kBf16 = 1u << 22, kTileBit = 1u << 24;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if ((d & kBf16) == 0 || (d & kTileBit) == 0) return false;
    // Linux gives a process the registers' state only when asked (Documentation/arch/x86/xstate).
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

bool uses_tiles() { return wanted && has_tiles(); }

void set_tiles(bool on) { wanted = on; }

SCALING_TILES float multiply_tiles(std::int64_t rounds) {
  configure();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, memory.sums[0], kRowBytes);
  settle();
  release();
  return memory.sums[0][0];
}

Tiles::Tiles() { configure(); }
Tiles::~Tiles() { release(); }

void Tiles::take(const LeftSides& left, std::int64_t rows, const Ask& ask) {
  const std::int64_t steps = tiles_of(rows, 2 * kPairs), pairs = tiles_of(rows, 2);
  const std::int64_t modules = tiles_of(left.modules(), kHeight);
  make_room(memory.left, left.tokens() * modules * steps);
  Ask share = ask.share_of(left.tokens() * modules * steps);
  for (int t = 0; t < left.tokens(); ++t) {
    for (std::int64_t m = 0; m < modules; ++m) {
      for (std::int64_t k = 0; k < steps; ++k) {
        transpose(left.of(t) + k * kPairs * left.stride() + m * kHeight, left.stride(),
                  pairs - k * kPairs, at_tile(memory.left, (t * modules + m) * steps + k));
        for (std::int64_t line = 0; line < share.lines; ++line) share.at(line);
        share.go_on();
      }
    }
  }
}

void Tiles::add_group(const bf16* const* right, int panels, std::int64_t rows,
                      const LeftSides& left, float* y, std::int64_t width, std::int64_t columns,
                      const Ask& ask) {
  const std::int64_t steps = tiles_of(rows, 2 * kPairs);
  const std::int64_t modules = tiles_of(left.modules(), kHeight);
  make_room(memory.right, panels * steps);
  Ask share = ask.share_of(left.tokens() * tiles_of(modules, kModuleTiles));
  for (int p = 0; p < panels; ++p) {
    pair_rows(right[p], rows, at_tile(memory.right, p * steps));
  }
  settle();
  for (int t = 0; t < left.tokens(); ++t) {
    for (std::int64_t m = 0; m < modules; m += kModuleTiles) {
      const std::uint32_t* const from = at_tile(memory.left, (t * modules + m) * steps);
      const std::uint32_t* const to = at_tile(memory.right, 0);
      const bool two_modules = m + 1 < modules;
      if (two_modules && panels == 2) {
        multiply<2, 2>(from, to, steps, share, memory.sums);
      } else if (two_modules) {
        multiply<2, 1>(from, to, steps, share, memory.sums);
      } else if (panels == 2) {
        multiply<1, 2>(from, to, steps, share, memory.sums);
      } else {
        multiply<1, 1>(from, to, steps, share, memory.sums);
      }
      share.go_on();
      for (std::int64_t i = 0; i < (two_modules ? 2 : 1); ++i) {
        for (std::int64_t p = 0; p < panels; ++p) {
          const std::int64_t s = (m + i) * kHeight;
          add_sums(memory.sums[i * 2 + p], y + (t * left.modules() + s) * width + p * kPanel, width,
                   left.modules() - s, columns - p * kPanel);
        }
      }
    }
  }
}

}  // namespace scaling::bf16_dot
#else
namespace scaling::bf16_dot {
bool has_tiles() { return false; }
bool uses_tiles() { return false; }
void set_tiles(bool) {}
float multiply_tiles(std::int64_t) { return 0; }
}  // namespace scaling::bf16_dot
#endif
