// The parts of a decoder block between which a decode step's time and cost are divided.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "kernels/clock.h"

namespace scaling {

enum class BlockPart {
  layer_norms,  ///< with the residual sums after them
  projection,   ///< of self-attention: queries, keys, values and output, of all self-attentions
  self_attention,
  cross_projection,
  cross_attention,
  feed_forward,
  recurrence,
};

inline constexpr std::array<const char*, 7> kPartNames = {
    "layer_norms",     "projection",   "self_attention", "cross_projection",
    "cross_attention", "feed_forward", "recurrence"};
inline constexpr std::size_t kParts = kPartNames.size();

inline const char* name_of(BlockPart part) { return kPartNames[std::size_t(part)]; }

/// One value a part; zero where a block does without it.
template <class T>
using PerPart = std::array<T, kParts>;

/// One thread's time in each part: a clock reading wherever one ends.
struct PartClock {
  PerPart<double> seconds{};
  BlockPart part = BlockPart::layer_norms;
  Clock::time_point entered;

  void start(Clock::time_point now) {
    seconds.fill(0);
    part = BlockPart::layer_norms;
    entered = now;
  }
  /// Ends the time of the part that was entered last.
  void enter(BlockPart next) {
    const Clock::time_point now = Clock::now();
    seconds[std::size_t(part)] += std::chrono::duration<double>(now - entered).count();
    part = next;
    entered = now;
  }
};

}  // namespace scaling
