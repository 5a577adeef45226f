// The places of a decoder block between which a decode step's time and cost are divided.
#pragma once

#include <array>
#include <cstddef>

namespace scaling {

enum class Seat {
  layer_norms,  ///< with the residual sums after them
  projection,   ///< of self-attention: queries, keys, values and output, of all self-attentions
  self_attention,
  cross_projection,
  cross_attention,
  feed_forward,
  recurrence,
};

inline constexpr std::array<const char*, 7> kSeatNames = {
    "layer_norms",     "projection",   "self_attention", "cross_projection",
    "cross_attention", "feed_forward", "recurrence"};
inline constexpr std::size_t kSeats = kSeatNames.size();

inline const char* name_of(Seat seat) { return kSeatNames[std::size_t(seat)]; }

/// One value a seat; zero where a block has nobody in it.
template <class T>
using PerSeat = std::array<T, kSeats>;

}  // namespace scaling
