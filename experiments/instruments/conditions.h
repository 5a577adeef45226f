// What the machine was like while something was measured: enough to say afterwards, without looking
// at what was measured, in which state its memory was and who else was using it.
#pragma once

#include <cstdint>
#include <istream>
#include <map>

#include "kernels/arena.h"
#include "kernels/ceilings.h"
#include "kernels/team.h"

namespace scaling {

/// Not a number where the system does not tell.
struct Conditions {
  double read_gbps = 0;   ///< one pass over a fixed GiB by the trial's threads, right after it
  double barrier_us = 0;  ///< one meeting of those threads, right after it
  double steal = 0;       ///< share of the processors' time that the hypervisor gave to others
  double pressure = 0;    ///< share of the time in which some task waited for a processor
  double switches = 0;    ///< times that this process lost a processor against its will
  double load = 0;        ///< the last minute's, at the end
  double huge_pages = 0;  ///< share of this process's own memory that is in huge pages, at the end
};

/// That share, of the lines of /proc/self/smaps_rollup; not a number if they do not tell.
double huge_page_share(std::istream& rollup);

/// Processor time by the kernel's counters, in ticks: of all, and of it what was stolen.
struct ProcessorTime {
  double all = 0, stolen = 0;
};
/// From the first line of /proc/stat; all 0 if that is none.
ProcessorTime processor_time(const char* stat_line);

/// Memory that is read and never written, and the counters at a trial's beginning.
class ConditionsMeter {
 public:
  static constexpr std::uint64_t kGiB = 1ull << 30;

  /// Takes the memory, its pages placed by the team. Throws UserError if there is none.
  explicit ConditionsMeter(Team& team, std::uint64_t bytes = kGiB);

  /// Right before a trial.
  void start() { before_ = counters(); }
  /// GB/s of one pass of the team over the memory. The first of a number of threads also finds its
  /// way to read.
  double read_gbps(Team& team);
  /// Right after a trial of the team: the pass leaves nothing of it in any cache. idle_seconds: to
  /// wait before that pass, for whatever threads the trial had beside the team's.
  Conditions stop(Team& team, double idle_seconds = 0);

 private:
  struct Counters {
    ProcessorTime processors;
    double waited_us = 0;  ///< of /proc/pressure/cpu
    double switches = 0;
    double seconds = 0;  ///< on a clock that only goes forward
  };
  static Counters counters();

  Arena memory_;
  std::map<int, ReadStreams> streams_;  ///< the fastest way for so many threads, found once
  Counters before_;
};

}  // namespace scaling
