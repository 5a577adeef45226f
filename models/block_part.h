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

/// One thread's time in each part, and the barriers it passed: a clock reading wherever one ends.
struct PartClock {
  PerPart<double> seconds{}, barriers{};
  BlockPart part = BlockPart::layer_norms;
  Clock::time_point entered;
  unsigned met = 0;  ///< Barrier::meetings() by then

  void start(Clock::time_point now, unsigned meetings) {
    seconds.fill(0);
    barriers.fill(0);
    part = BlockPart::layer_norms;
    entered = now;
    met = meetings;
  }
  /// Ends the time of the part that was entered last.
  void enter(BlockPart next, unsigned meetings) {
    const Clock::time_point now = Clock::now();
    seconds[std::size_t(part)] += std::chrono::duration<double>(now - entered).count();
    barriers[std::size_t(part)] += meetings - met;
    part = next;
    entered = now;
    met = meetings;
  }
};

}  // namespace scaling
