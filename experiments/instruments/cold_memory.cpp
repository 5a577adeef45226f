// One arena, written once and read often.
#include "experiments/instruments/cold_memory.h"

#include <unistd.h>

#include <cstring>

namespace scaling {

std::uint64_t more_than_caches_hold() {
  constexpr long kUntold = 256 << 20;
  const long told = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return 4 * std::uint64_t(told > 0 ? told : kUntold);
}

ColdMemory::ColdMemory(Team& team, std::uint64_t bytes) : team_(team) {
  require_memory(bytes, "the memory that is read between cold steps", "free some");
  arena_ = Arena(bytes);
  std::memset(arena_.take(bytes), 1, bytes);
  streams_ = fastest_streams(team_, arena_.data(), arena_.used());
}

}  // namespace scaling
