// A team of threads that stays alive through a whole token: small sparse blocks last tens of
// microseconds.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/kernels.h"

namespace scaling {

/// Spins, then yields the processor. All `threads` of the team must call wait().
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void wait();
  /// Hands out 0, 1, 2, ... once each, until the next wait() of more than one thread: pieces of
  /// work for whoever is free. `queue` is below kQueues.
  int claim(int queue) {
    return claimed_[std::size_t(queue)].next.fetch_add(1, std::memory_order_relaxed);
  }
  static constexpr int kQueues = 4;
  /// Times that more than one thread met here; exact for one of them between two waits of its own.
  unsigned meetings() const { return generation_.load(std::memory_order_relaxed); }

 private:
  const int threads_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<unsigned> generation_{0};
  struct alignas(64) Queue {
    std::atomic<int> next{0};
  };
  std::array<Queue, kQueues> claimed_;
};

/// The caller is thread 0; run() executes fn(thread) on every thread and returns when all have
/// returned. Between runs the workers spin for a moment, then sleep. fn must not throw.
class Team {
 public:
  /// pin: bind thread t to the t-th processor of those that the process had before any team bound
  /// a thread. The thread that ends the team gets all of them again.
  explicit Team(int threads, bool pin = false);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }
  Barrier& barrier() { return barrier_; }
  void run(const std::function<void(int thread)>& fn);

 private:
  void work(int thread);

  const int threads_;
  const bool pin_;
  Barrier barrier_;
  const std::function<void(int)>* job_ = nullptr;
  alignas(64) std::atomic<unsigned> round_{0};
  alignas(64) std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

/// Processors this process may use.
int available_threads();

/// The share of [0, n) of one of `parts`, its borders multiples of `multiple` (the last end is n).
Range share_of(std::int64_t n, int part, int parts, std::int64_t multiple = 1);

}  // namespace scaling
