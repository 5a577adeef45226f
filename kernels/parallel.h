// Loops over rows in training, shared among OpenMP's threads as the libraries' products are.
#pragma once

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace scaling {

/// body(begin, end) over disjoint parts of [0, n), one a thread, always cut alike for the same n
/// and thread count. Not for use while a Team runs.
template <class Body>
void parallel_for(std::int64_t n, Body&& body) {
#ifdef _OPENMP
#pragma omp parallel if (n > 1)
  {
    const std::int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const std::int64_t begin = n * thread / threads, end = n * (thread + 1) / threads;
    if (begin < end) body(begin, end);
  }
#else
  if (n > 0) body(0, n);
#endif
}

}  // namespace scaling
