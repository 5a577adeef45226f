// A signal may arrive anywhere in a computation and must change nothing of it.
#include "experiments/study/interrupt.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/libraries.h"
#include "kernels/random.h"

namespace scaling {
namespace {

/// Of a training step: some libraries take other ways for small products.
constexpr std::int64_t kRows = 1536, kInner = 128, kCols = 512;

std::vector<float> drawn(std::int64_t n, std::uint64_t stream) {
  Rng rng(1, stream);
  std::vector<float> values;
  values.resize(std::size_t(n));
  for (float& v : values) v = rng.uniform(-1, 1);
  return values;
}

class InterruptTest : public testing::TestWithParam<std::string> {};

/// Libraries that generate their products may use the stack pointer as they like; what they
/// allocate lies beside what is checked.
TEST_P(InterruptTest, ChangesNoProduct) {
  const Gemm& gemm = find_gemm(GetParam());
  const std::vector<float> a = drawn(kRows * kInner, 1), b = drawn(kCols * kInner, 2);
  const auto product = [&](std::vector<float>& c) {
    gemm.product(false, true, kRows, kCols, kInner, a.data(), kInner, b.data(), kInner, 0, c.data(),
                 kCols);
  };
  std::vector<float> expected(std::size_t(kRows * kCols)), c(expected.size());
  product(expected);
  const pthread_t here = pthread_self();
  for (int i = 0; i < 500; ++i) {
    watch_interrupts();
    std::atomic<bool> sent = false;
    std::thread sender([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(50 + 37 * (i % 60)));
      pthread_kill(here, SIGINT);
      sent = true;
    });
    do {
      product(c);
      ASSERT_EQ(c, expected);
    } while (!sent);
    sender.join();
    EXPECT_TRUE(interrupt_arrived());
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Library& library : libraries()) all.emplace_back(library.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Libraries, InterruptTest, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace scaling
