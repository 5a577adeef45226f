// Products of whole tiles (Intel AMX, tdpbf16ps: 16 x 16 sums of 32 bf16 products an instruction),
// for the modular products where the processor has them.
#pragma once

#include <cstdint>

#include "kernels/bf16_dot/left_side.h"

namespace scaling::bf16_dot {

/// Whether build, processor and system have tiles of bf16; the first call asks the system for them.
bool has_tiles();
/// The same, unless set_tiles said no.
bool uses_tiles();

/// `rounds` times four independent products of tiles, for the ceiling.
float multiply_tiles(std::int64_t rounds);
inline constexpr std::int64_t kTileFlopsOfRound = 4 * 16 * 16 * 32 * 2;

#if defined(__x86_64__)
inline constexpr RowChoice kTileRows = {32, 32, 192};
inline constexpr int kTilePanels = 2;

/// What the calling thread's products of tiles work with, from here to its end; memory is kept
/// between calls. Exists only where has_tiles().
class Tiles {
 public:
  Tiles();
  ~Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  /// Brings `rows` input rows of all tokens into the order of tiles, and asks meanwhile for what
  /// the first group needs.
  void take(const LeftSides& left, std::int64_t rows, const Ask& ask);
  /// y[(t * modules + s) * width + p * kPanel + j] += sum_k left[t][k][s] right[p][k][j] over the
  /// `rows` taken, for `panels` panels (kTilePanels at most) and `columns` columns of them.
  /// ask.lines and more_lines: of the whole group.
  void add_group(const bf16* const* right, int panels, std::int64_t rows, const LeftSides& left,
                 float* y, std::int64_t width, std::int64_t columns, const Ask& ask);
};
#endif

}  // namespace scaling::bf16_dot
