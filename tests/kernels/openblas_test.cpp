// OpenBLAS runs its kernels for Skylake-X wherever the processor can, unless the user says
// otherwise.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "kernels/libraries.h"

namespace scaling {
namespace {

/// Ends this process, which has not used the library before, with its choice on standard error.
[[noreturn]] void tell_the_core(const char* user_says) {
  if (user_says) {
    setenv("OPENBLAS_CORETYPE", user_says, 1);
  } else {
    unsetenv("OPENBLAS_CORETYPE");
  }
  std::cerr << library_description("openblas");
  std::exit(0);
}

class OpenBlas : public testing::Test {
 protected:
  void SetUp() override {
    bool linked = false;
    for (const Library& library : libraries()) linked |= library.name == std::string("openblas");
    if (!linked) GTEST_SKIP() << "this build has no OpenBLAS";
    // Each death test is then a process of its own from the start.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(OpenBlas, TakesAProcessorWithAvx512ForASkylakeX) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    GTEST_SKIP() << "the processor has no AVX-512";
  }
  EXPECT_EXIT(tell_the_core(nullptr), testing::ExitedWithCode(0), "OpenBLAS .*, core SkylakeX");
}

TEST_F(OpenBlas, TakesItForWhatTheUserSays) {
  EXPECT_EXIT(tell_the_core("NEHALEM"), testing::ExitedWithCode(0), "OpenBLAS .*, core Nehalem");
}

}  // namespace
}  // namespace scaling
