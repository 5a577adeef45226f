// The controller's second half and its block argmax: neurons lie across lanes, so no sum over lanes
// is needed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/controller.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <numeric>

#include "kernels/kernels.h"
#include "kernels/simd/rows-inl.h"
#include "kernels/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {
using simd::Prefetch;

/// Panels side by side: as many sums as a dense product has.
inline constexpr int kSideBySide = HWY_MAX(2, kStreams / kVectorsOfPanel);
/// Fewer of them where too few are left; of short panels every second one, so that a stream has two
/// in a row: where sums are few that would leave too few multiply-adds under way.
inline constexpr int kFewPanels = HWY_MAX(1, kSideBySide / 4);
/// Panels far apart, each followed by its neighbours, which the processor's prefetching takes for
/// one long stream.
inline constexpr int kFarPanels = kFewRows;
inline constexpr bool kHalvesShort = kVectorsOfPanel == 1;

/// Logits of kPanels panels, `columns` columns apart, for one token, bias included, into `to`.
/// ahead: panels that are wanted next; their first kLead bytes are asked for if anything is.
template <int kPanels, bool kAsks, class T>
HWY_INLINE void logits_of(const T* w, std::int64_t columns, const T* ahead, std::int64_t rank,
                          const float* hidden, const float* bias, float* to) {
  const std::int64_t pitch = rank * columns;
  Vector sums[kPanels][kVectorsOfPanel];
  for (int p = 0; p < kPanels; ++p) {
    for (int v = 0; v < kVectorsOfPanel; ++v) sums[p][v] = load(bias + p * columns + v * kLanes);
  }
  constexpr std::int64_t kAhead = kLead / std::int64_t(sizeof(T)) / kPanel;  // input rows
  constexpr std::int64_t kStep = HWY_MAX(1, kLine<T> / kPanel);
  const auto run = [&](std::int64_t begin, std::int64_t end, const T* asked) HWY_ATTR {
    std::int64_t l = begin;
    for (; l + kStep <= end; l += kStep) {
      Vector h[kStep];
      for (std::int64_t k = 0; k < kStep; ++k) h[k] = broadcast(hidden[l + k]);
      for (int p = 0; p < kPanels; ++p) {
        const T* at = w + p * pitch + l * kPanel;
        if constexpr (kAsks) prefetch(asked + p * pitch + l * kPanel);
        for (std::int64_t k = 0; k < kStep; ++k) {
          for (int v = 0; v < kVectorsOfPanel; ++v) {
            sums[p][v] = hn::MulAdd(load(at + k * kPanel + v * kLanes), h[k], sums[p][v]);
          }
        }
      }
    }
    return l;
  };
  const std::int64_t split = std::max<std::int64_t>(0, rank - kAhead);
  std::int64_t l = run(0, split, w + kAhead * kPanel);
  l = run(l, rank, ahead - split * kPanel);
  for (; l < rank; ++l) {
    const Vector h = broadcast(hidden[l]);
    for (int p = 0; p < kPanels; ++p) {
      for (int v = 0; v < kVectorsOfPanel; ++v) {
        sums[p][v] = hn::MulAdd(load(w + p * pitch + l * kPanel + v * kLanes), h, sums[p][v]);
      }
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    for (int v = 0; v < kVectorsOfPanel; ++v) store(sums[p][v], to + p * columns + v * kLanes);
  }
}

/// One logit at a time, for the ends of a range that are not whole groups of panels.
template <class T>
float logit(const T* w, std::int64_t rank, const float* hidden, std::int64_t j) {
  const T* at = w + (j / kPanel) * rank * kPanel + j % kPanel;
  float z = 0;
  for (std::int64_t l = 0; l < rank; ++l) z += hidden[l] * to_float(at[l * kPanel]);
  return z;
}

std::int64_t Argmax(const float* x, std::int64_t n) {
  std::int64_t i = 0;
  float best = x[0];
  if (n >= kLanes) {
    Vector most = load(x);
    for (i = kLanes; i + kLanes <= n; i += kLanes) most = hn::Max(most, load(x + i));
    best = hn::GetLane(hn::MaxOfLanes(Floats(), most));
  }
  for (; i < n; ++i) best = std::max(best, x[i]);
  const Vector wanted = broadcast(best);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const auto at = hn::FindFirstTrue(Floats(), hn::Eq(load(x + i), wanted));
    if (at >= 0) return i + std::int64_t(at);
  }
  for (; i < n; ++i) {
    if (x[i] == best) return i;
  }
  return 0;  // only NaNs
}

/// is_far: whether the panels of one token go by kFarPanels, the rest as kAsks says.
template <bool kAsks, class T>
void controller_typed(const T* w, std::int64_t rank, std::int64_t d_ff, const float* bias,
                      const float* hidden, int tokens, std::int64_t block, float* logits,
                      std::int32_t* selected, Range blocks, bool is_far) {
  constexpr std::int64_t kGroup = kSideBySide * kPanel;
  const std::int64_t count = d_ff / block;
  const std::int64_t begin = blocks.begin * block, end = blocks.end * block;
  const bool halves = kHalvesShort && are_short(rank * kPanel * std::int64_t(sizeof(T)));
  // With several tokens a stretch of logits is computed and decided token by token, so that one row
  // of logits is enough and the weights of the stretch stay in cache for the next token. It is
  // whole blocks and whole groups of panels.
  const std::int64_t stretch =
      tokens > 1 ? std::lcm(block, kGroup) : std::max<std::int64_t>(1, end - begin);
  for (std::int64_t from = begin; from < end; from += stretch) {
    const std::int64_t to = std::min(from + stretch, end);
    for (int t = 0; t < tokens; ++t) {
      const float* h = hidden + t * rank;
      std::int64_t j = from;
      for (; j < to && j % kPanel != 0; ++j) logits[j] = bias[j] + logit(w, rank, h, j);
      if (tokens == 1 && is_far) {
        const std::int64_t share = (to - j) / (kFarPanels * kPanel) * kPanel;
        for (std::int64_t i = j; i < j + share; i += kPanel) {
          logits_of<kFarPanels, false>(w + i * rank, share, w + i * rank, rank, h, bias + i,
                                       logits + i);
        }
        j += kFarPanels * share;
      }
      for (; j + kGroup <= to; j += kGroup) {
        const T* const here = w + j * rank;
        const T* const ahead = t == 0 && j + 2 * kGroup <= end ? here + kGroup * rank : here;
        if (!halves) {
          logits_of<kSideBySide, kAsks>(here, kPanel, ahead, rank, h, bias + j, logits + j);
          continue;
        }
        const T* const second = here + kPanel * rank;
        logits_of<kSideBySide / 2, kAsks>(here, 2 * kPanel, second, rank, h, bias + j, logits + j);
        logits_of<kSideBySide / 2, kAsks>(second, 2 * kPanel, ahead, rank, h, bias + j + kPanel,
                                          logits + j + kPanel);
      }
      for (; j + kFewPanels * kPanel <= to; j += kFewPanels * kPanel) {
        logits_of<kFewPanels, kAsks>(w + j * rank, kPanel, w + j * rank, rank, h, bias + j,
                                     logits + j);
      }
      for (; j + kPanel <= to; j += kPanel) {
        logits_of<1, kAsks>(w + j * rank, kPanel, w + j * rank, rank, h, bias + j, logits + j);
      }
      for (; j < to; ++j) logits[j] = bias[j] + logit(w, rank, h, j);
      for (std::int64_t b = from / block; b < to / block; ++b) {
        selected[t * count + b] = std::int32_t(Argmax(logits + b * block, block));
      }
    }
  }
}

void Controller(const WeightView& w, const float* bias, const float* hidden, int tokens,
                std::int64_t block, float* logits, std::int32_t* selected, Range blocks,
                Prefetch by) {
  const auto run = [&]<bool kAsks>(const auto* weights) HWY_ATTR {
    controller_typed<kAsks>(weights, w.rows, w.cols, bias, hidden, tokens, block, logits, selected,
                            blocks, simd::is_by_processor(by));
  };
  // For several tokens: short streams of bf16 are over before the processor's prefetching has found
  // them.
  if (w.type == WeightType::bf16) {
    run.template operator()<true>(w.half());
  } else if (!simd::is_by_processor(by)) {
    run.template operator()<true>(w.f32());
  } else {
    run.template operator()<false>(w.f32());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling::simd {
HWY_EXPORT(Controller);
HWY_EXPORT(Argmax);

void controller(const WeightView& w, const float* bias, const float* hidden, int tokens,
                std::int64_t block, float* logits, std::int32_t* selected, Range blocks) {
  HWY_DYNAMIC_DISPATCH(Controller)
  (w, bias, hidden, tokens, block, logits, selected, blocks, prefetch_by());
}

std::int64_t argmax(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(Argmax)(x, n); }
}  // namespace scaling::simd
#endif
