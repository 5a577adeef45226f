// Every paper case x kernel set x weight type under one stopwatch, each checked against ref before
// it is timed.
//
// Names are kernel/shape/set/type/tokens, with /warm where the same weights are read again and
// again; otherwise calls rotate through more weights than the last-level cache holds. The
// stopwatch's own /real_time ends each name. At one thread also tile_products.h. For example
//   bench_kernels --benchmark_filter='multiplicative/.*/simd/f32/1/real' --threads 2
#pragma once

#include <memory>

#include "experiments/machine/stopwatch.h"

namespace scaling {

std::unique_ptr<StopwatchStudy> make_kernel_study();

}  // namespace scaling
