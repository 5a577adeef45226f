// Memory that goes through the caches between two timed steps, so that these find nothing there.
#pragma once

#include <cstdint>

#include "kernels/arena.h"
#include "kernels/ceilings.h"
#include "kernels/team.h"

namespace scaling {

/// Bytes that leave nothing else in a last-level cache: four times what the system says of it.
std::uint64_t more_than_caches_hold();

class ColdMemory {
 public:
  /// Throws UserError if `bytes` do not fit. team: outlives this, and reads it.
  ColdMemory(Team& team, std::uint64_t bytes);
  /// Empties the caches of all else. Bytes a second of the pass, by the loop that was the fastest
  /// at first: the rate of memory that no cache holds.
  double sweep() const { return measure_one_pass(team_, arena_.data(), arena_.used(), streams_); }

 private:
  Team& team_;
  Arena arena_;
  ReadStreams streams_ = ReadStreams::one;
};

}  // namespace scaling
