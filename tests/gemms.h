// Matrix products that tests hand to layers in place of a library's.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/gemm.h"

namespace scaling {

/// Eigen's, which adds its FLOPs to multiplied_flops.
const Gemm& counted_gemm();
inline std::atomic<std::int64_t> multiplied_flops{0};

/// One that takes no scratch of its own, as libraries may.
const Gemm& plain_gemm();

}  // namespace scaling
