// Team and barrier: spinning is what keeps a barrier below a microsecond; yielding is for machines
// that are shared.
#include "kernels/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "kernels/check.h"

namespace scaling {
namespace {

// About half a millisecond of spinning: longer than any phase another thread may be late by, short
// enough that a preempted partner gets the processor soon.
constexpr int kSpins = 1 << 14;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Processors of the calling thread's affinity mask.
std::vector<int> processors_of_this_thread() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int p = 0; p < CPU_SETSIZE; ++p) {
      if (CPU_ISSET(p, &mask)) processors.push_back(p);
    }
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

/// Those of the process, as the first to ask finds them: a bound thread sees its own alone, and so
/// would every team after it.
const std::vector<int>& allowed_processors() {
  static const std::vector<int> processors = processors_of_this_thread();
  return processors;
}

void bind(pthread_t thread, const std::vector<int>& processors) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int p : processors) CPU_SET(std::size_t(p), &mask);
  pthread_setaffinity_np(thread, sizeof mask, &mask);
}

}  // namespace

void Barrier::wait() {
  if (threads_ == 1) return;
  const unsigned generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    for (Queue& queue : claimed_) queue.next.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; generation_.load(std::memory_order_acquire) == generation; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
}

Team::Team(int threads, bool pin) : threads_(threads), pin_(pin), barrier_(threads) {
  SCALING_CHECK(threads >= 1);
  const std::vector<int>& processors = allowed_processors();
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(t); });
  // A thread begins on the processors of the one that starts it, which another team may have bound.
  for (int t = pin ? 0 : 1; t < threads; ++t) {
    const pthread_t thread = t ? workers_[std::size_t(t - 1)].native_handle() : pthread_self();
    bind(thread, pin ? std::vector{processors[std::size_t(t) % processors.size()]} : processors);
  }
}

Team::~Team() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  if (pin_) bind(pthread_self(), allowed_processors());
}

void Team::run(const std::function<void(int)>& fn) {
  if (threads_ == 1) return fn(0);
  job_ = &fn;
  running_.store(threads_ - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  fn(0);
  for (int spins = 0; running_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
}

void Team::work(int thread) {
  unsigned seen = 0;
  for (;;) {
    int spins = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      if (spins++ < kSpins) {
        pause();
      } else {
        round_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    (*job_)(thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

int available_threads() { return int(allowed_processors().size()); }

Range share_of(std::int64_t n, int part, int parts, std::int64_t multiple) {
  const std::int64_t units = (n + multiple - 1) / multiple;
  const auto border = [&](std::int64_t p) { return std::min(n, units * p / parts * multiple); };
  return {border(part), border(part + 1)};
}

}  // namespace scaling
