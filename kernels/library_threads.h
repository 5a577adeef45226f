// The kernel sets made of other people's libraries: their accessors, versions and thread counts.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace scaling {

/// Dense products by Eigen, everything else simd's. The other two exist in builds with the library.
const KernelSet& eigen_kernels();
const KernelSet& openblas_kernels();
const KernelSet& onednn_kernels();

/// Names of the library sets in this build.
const std::vector<std::string>& library_sets();

/// Threads that the library behind a set starts for one call, from whichever thread it is called; 1
/// until this is called. Sets without a library have none to give and ignore it. Not to be called
/// while a kernel runs.
void set_library_threads(const std::string& kernel_set, int threads);

/// Version of the library behind a set, and OpenBLAS's choice of core ("OpenBLAS 0.3.21, core
/// SkylakeX"); empty for sets without a library.
std::string library_description(const std::string& kernel_set);

}  // namespace scaling
