// Memory that goes through the caches between two timed steps, so that these find nothing there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "kernels/ceilings.h"
#include "kernels/team.h"

namespace scaling {

/// Bytes of each last-level cache of a machine, as `folder` says, in no order; empty: it does not.
std::vector<std::uint64_t> last_level_caches(const std::string& folder = "/sys/devices/system/cpu");

/// Bytes that leave nothing else in last-level caches when so many threads read a part each: four
/// times the largest, for every cache that the threads may share.
std::uint64_t more_than_caches_hold(int threads,
                                    const std::vector<std::uint64_t>& caches = last_level_caches());

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
