// The libraries that multiply matrices: eigen in every build, openblas and onednn where they were
// found. What a library offers to kernel sets and to training is one Library; the list is
// libraries().
#pragma once

#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/kernels.h"

namespace scaling {

struct Library {
  const char* name;  ///< eigen, openblas, onednn; also that of its kernel set
  /// Dense products by the library, everything else simd's.
  const KernelSet& (*kernels)();
  GemmFunction gemm;
  GemmFunction bf16_gemm;
  void (*set_threads)(int threads);
  std::string (*description)();
};

/// Each defined in the folder of its name, which a build compiles if it has the library.
Library eigen_library();
Library openblas_library();
Library onednn_library();

/// Those of this build, in the order of library_names(); eigen is always one.
const std::vector<Library>& libraries();
/// Names of all, also of those that this build lacks.
const std::vector<std::string>& library_names();

/// Threads that the library behind a kernel set starts for one call, from whichever thread it is
/// called; 1 until this is called. Sets without a library have none to give and ignore it. Not to
/// be called while a kernel runs.
void set_library_threads(const std::string& kernel_set, int threads);

/// Version of the library behind a kernel set, and OpenBLAS's choice of core ("OpenBLAS 0.3.21,
/// core SkylakeX"); empty for sets without a library.
std::string library_description(const std::string& kernel_set);

}  // namespace scaling
