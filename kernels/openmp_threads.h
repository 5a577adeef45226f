// OpenMP counts its threads per calling thread, so a library's kernel sets its count at every call.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

namespace scaling {

/// That a loop started here would have.
inline int openmp_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

inline void use_openmp_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
#endif
}

}  // namespace scaling
