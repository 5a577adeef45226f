// The left side of a modular product, rounded to bf16: made on the fly for some input rows at a
// time, in the order in which both of the processor's products take it. To be included where the
// instructions of target.h exist.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/bf16_dot/target.h"
#include "kernels/kernels.h"

namespace scaling::bf16_dot {

inline constexpr std::int64_t kLanes = 16;
inline constexpr std::int64_t kLine = 64;

struct alignas(kLine) Line {
  std::uint32_t pairs[kLanes];
};

/// How many input rows a product works on together.
struct RowChoice {
  std::int64_t step;   ///< a multiple of this, an even number
  std::int64_t least;  ///< at least, unless there are fewer
  std::int64_t most;
};

/// Left sides of all tokens for as many input rows as are worked on together. The bf16 of input
/// rows 2i and 2i + 1 for module s are lower and upper half of of(token)[i * stride() + s]; zero
/// from the last module to the next multiple of kLanes. One a thread: the memory is kept between
/// calls.
class LeftSides {
 public:
  LeftSides(std::int64_t modules, int tokens, const RowChoice& choice);

  std::int64_t modules() const { return modules_; }
  int tokens() const { return tokens_; }
  std::int64_t stride() const { return stride_; }
  std::uint32_t* of(int token) const {
    return reinterpret_cast<std::uint32_t*>(lines_.data()) + token * most_rows_ / 2 * stride_;
  }
  /// Input rows of each of the fewest equal chunks of `rows`.
  std::int64_t chunk_of(std::int64_t rows) const {
    const std::int64_t chunks = std::max<std::int64_t>((rows + most_rows_ - 1) / most_rows_, 1);
    const std::int64_t equal = (rows + chunks - 1) / chunks;
    return (equal + step_ - 1) / step_ * step_;
  }

  /// x[k] d[k][s] for `rows` input rows of one token; d has `modules` columns.
  void scale_rows(int token, const bf16* d, const float* x, std::int64_t rows) const;
  /// `rows` channels of a frame, `frame_stride` values apart.
  void take_channels(int token, const float* frame, std::int64_t frame_stride,
                     std::int64_t rows) const;

 private:
  static thread_local std::vector<Line> lines_;

  std::int64_t modules_;
  int tokens_;
  std::int64_t stride_, step_, most_rows_;
};

/// Two halves of 16 values in pairs: 0, 16, 1, 17, ...
SCALING_BF16 inline __m512i paired(__m512i halves) {
  alignas(kLine) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves);
}

/// What a group of panels asks memory for while it computes: `lines` lines from each of `panels`
/// addresses, `more_lines` from `more`.
struct Ask {
  const char* panel[3] = {};
  int panels = 0;
  std::int64_t lines = 0;
  const char* more = nullptr;
  std::int64_t more_lines = 0;

  /// The share of one of `count` tiles.
  Ask share_of(std::int64_t count) const {
    Ask share = *this;
    share.lines = (lines + count - 1) / count;
    share.more_lines = (more_lines + count - 1) / count;
    return share;
  }
  /// To the share of the next tile.
  void go_on() {
    for (int p = 0; p < panels; ++p) panel[p] += lines * kLine;
    more += more_lines * kLine;
  }
  inline __attribute__((always_inline)) void at(std::int64_t line) const {
    if (line < lines) {
      for (int p = 0; p < panels; ++p) __builtin_prefetch(panel[p] + line * kLine);
    }
    if (line < more_lines) __builtin_prefetch(more + line * kLine);
  }
};

}  // namespace scaling::bf16_dot
#endif
