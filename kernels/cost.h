// What a phase of a decode step must read and compute, counted, not measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace scaling {

/// A phase runs between two barriers, or is bound by a resource of its own; its floor is
/// max(bytes / bandwidth, flops / peak). Counts are for one decode step of all its tokens.
struct Phase {
  std::string name;
  double weights = 0;  ///< weights read (each once, however many tokens use it)
  double bytes = 0;    ///< weights' bytes and cached keys and values; activations are left out
  double flops = 0;    ///< multiply and add count as two
};

using Cost = std::vector<Phase>;

inline Phase total(const Cost& cost, const std::string& name = "total") {
  Phase sum{name};
  for (const Phase& p : cost) {
    sum.weights += p.weights;
    sum.bytes += p.bytes;
    sum.flops += p.flops;
  }
  return sum;
}

inline void append(Cost& to, const Cost& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Seconds below which no implementation on this machine can go that does phase after phase.
inline double floor_seconds(const Cost& cost, double bytes_per_second, double flops_per_second) {
  double seconds = 0;
  for (const Phase& p : cost) {
    const double memory = p.bytes / bytes_per_second;
    const double compute = p.flops / flops_per_second;
    seconds += memory > compute ? memory : compute;
  }
  return seconds;
}

/// Seconds below which none can go at all, though it read for one phase while it computes another.
inline double overlap_seconds(const Cost& cost, double bytes_per_second, double flops_per_second) {
  return floor_seconds({total(cost)}, bytes_per_second, flops_per_second);
}

}  // namespace scaling
