// Counters of the system before and after; the read is this process's own.
#include "experiments/instruments/conditions.h"

#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>

#include "kernels/ceilings.h"
#include "kernels/clock.h"

namespace scaling {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Microseconds, of a line like "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234".
double total_of(const std::string& pressure_line) {
  const std::size_t at = pressure_line.find("total=");
  return at == std::string::npos ? kUnknown : std::strtod(pressure_line.c_str() + at + 6, nullptr);
}

}  // namespace

ProcessorTime processor_time(const char* stat_line) {
  // user nice system idle iowait irq softirq steal; guests' time, behind, is in user and nice.
  constexpr int kFields = 8, kSteal = 7;
  std::istringstream in(stat_line);
  std::string name;
  ProcessorTime time;
  if (!(in >> name) || name != "cpu") return {};
  double ticks = 0;
  for (int field = 0; field < kFields && in >> ticks; ++field) {
    time.all += ticks;
    if (field == kSteal) time.stolen = ticks;
  }
  return time;
}

double huge_page_share(std::istream& rollup) {
  double own = 0, huge = kUnknown;
  for (std::string word; rollup >> word;) {
    if (word == "Anonymous:") rollup >> own;
    if (word == "AnonHugePages:") rollup >> huge;
  }
  return own > 0 ? huge / own : kUnknown;
}

ConditionsMeter::ConditionsMeter(Team& team, std::uint64_t bytes) {
  require_memory(bytes, "the memory that is read to tell the machine's state",
                 "free some, or choose fewer blocks (--blocks)");
  memory_ = Arena(bytes);
  auto* const first = static_cast<char*>(memory_.take(bytes));
  team.run([&](int thread) {
    const Range own = share_of(std::int64_t(bytes), thread, team.threads(), 1 << 21);
    std::memset(first + own.begin, 0, std::size_t(own.size()));
  });
}

ConditionsMeter::Counters ConditionsMeter::counters() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.processors = processor_time(first_line("/proc/stat").c_str()),
          .waited_us = total_of(first_line("/proc/pressure/cpu")),
          .switches = double(usage.ru_nivcsw),
          .seconds = std::chrono::duration<double>(Clock::now().time_since_epoch()).count()};
}

double ConditionsMeter::read_gbps(Team& team) {
  const auto [streams, is_new] = streams_.try_emplace(team.threads(), ReadStreams::one);
  if (is_new) streams->second = fastest_streams(team, memory_.data(), memory_.used());
  return measure_one_pass(team, memory_.data(), memory_.used(), streams->second) / 1e9;
}

Conditions ConditionsMeter::stop(Team& team, double idle_seconds) {
  const Counters after = counters();
  const double ticks = after.processors.all - before_.processors.all;
  const double microseconds = 1e6 * (after.seconds - before_.seconds);
  Conditions found;
  // Counters of the kernel tick a hundred times a second: below that there is nothing to divide.
  found.steal =
      ticks > 0 ? (after.processors.stolen - before_.processors.stolen) / ticks : kUnknown;
  found.pressure = (after.waited_us - before_.waited_us) / microseconds;
  found.switches = after.switches - before_.switches;
  found.load = std::strtod(first_line("/proc/loadavg").c_str(), nullptr);
  std::ifstream rollup("/proc/self/smaps_rollup");
  found.huge_pages = huge_page_share(rollup);
  std::this_thread::sleep_for(std::chrono::duration<double>(idle_seconds));
  found.read_gbps = read_gbps(team);
  found.barrier_us = 1e6 * measure_barrier(team);
  return found;
}

}  // namespace scaling
