// A flag set by a signal handler and read by whoever can stop cleanly.
#include "experiments/study/interrupt.h"

#include <csignal>

namespace scaling {
namespace {

volatile std::sig_atomic_t arrived = 0;

void remember(int signal) {
  arrived = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_interrupts() {
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

bool interrupt_arrived() { return arrived != 0; }

void check_interrupt() {
  if (arrived) throw Interrupted{};
}

}  // namespace scaling
