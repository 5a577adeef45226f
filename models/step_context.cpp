// How a phase's rows are divided among the threads of a decode step.
#include "models/layer.h"

namespace scaling {

StepContext::RowPartition StepContext::partition(std::int64_t n, std::int64_t row_bytes) const {
  // Below this a phase lasts some tens of microseconds, and a piece would cost more than it saves.
  constexpr std::int64_t kFewBytes = 1 << 20;
  constexpr std::int64_t kPieceBytes = 128 << 10;
  constexpr std::int64_t kStreams = 16;  // rows that kernels go along at once
  if (threads == 1 || !kernels.takes_pieces || queue == Barrier::kQueues ||
      n * row_bytes < kFewBytes) {
    return {n, n, 1};
  }
  const std::int64_t in_pieces = n / 8 / 16 * 16;
  const std::int64_t least = std::max(kPieceBytes / row_bytes, in_pieces / kMaxPieces);
  return {n, n - in_pieces, std::max(kStreams, (least + kStreams - 1) / kStreams * kStreams)};
}

}  // namespace scaling
