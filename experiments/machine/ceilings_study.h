// The machine's limits as an experiment of its own: reading, multiplying, meeting at a barrier,
// large products.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// Points are read_16MiB and other sizes, fma, bf16_dot, barrier, gemm_openblas and other
/// libraries, with --quick gemm_openblas_1024; each at every number of threads.
std::unique_ptr<Study> make_ceiling_study();

}  // namespace scaling
