// A flag set by a signal handler and read by whoever can stop cleanly.
#include "experiments/study/interrupt.h"

#include <signal.h>

#include <array>

namespace scaling {
namespace {

volatile sig_atomic_t arrived = 0;

void remember(int) { arrived = 1; }

/// The second one ends the program at once.
void watch(int signal) {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_interrupts() {
  // The handler has a stack of its own: products that oneDNN generates use the stack pointer for
  // other memory, which the kernel would take for a stack and write over.
  static std::array<char, 64 << 10> own;
  const stack_t stack = {.ss_sp = own.data(), .ss_flags = 0, .ss_size = own.size()};
  sigaltstack(&stack, nullptr);
  watch(SIGINT);
  watch(SIGTERM);
}

bool interrupt_arrived() { return arrived != 0; }

void check_interrupt() {
  if (arrived) throw Interrupted{};
}

}  // namespace scaling
