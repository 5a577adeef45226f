// The clock of everything that is timed.
#pragma once

#include <chrono>

namespace scaling {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace scaling
