// Catches what a driver's body throws.
#include "experiments/study/run_experiment.h"

#include <cstdio>
#include <exception>
#include <new>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"

namespace scaling {

int run_experiment(const std::function<int()>& body) {
  watch_interrupts();
  try {
    return body();
  } catch (const UserError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kExitUserError;
  } catch (const Interrupted&) {
    std::fprintf(stderr, "interrupted before anything was measured\n");
    return kExitInterrupted;
  } catch (const std::bad_alloc&) {
    std::fprintf(
        stderr,
        "error: memory ran out; finished rows are kept, free memory and repeat the command\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace scaling
