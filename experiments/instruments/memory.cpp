// Resident memory as /proc tells it.
#include "experiments/instruments/memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace scaling {

void reset_peak_memory() {
  // 5: forget the peak (proc(5)). Where it may not be written, the peak is the whole process's.
  std::ofstream("/proc/self/clear_refs") << "5";
}

double peak_memory() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kilobytes = 0;
    if (word == "VmHWM:" && in >> kilobytes) return 1024 * kilobytes;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace scaling
