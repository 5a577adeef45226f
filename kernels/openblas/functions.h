// OpenBLAS's functions, loaded when first asked for: it chooses the kernels of a processor while it
// is loaded, so that a program linked with it could not tell it better.
#pragma once

#include <cblas.h>

namespace scaling::openblas {

struct Functions {
  decltype(&cblas_sgemv) sgemv;
  decltype(&cblas_sgemm) sgemm;
  void (*set_num_threads)(int threads);
  char* (*get_config)();
  char* (*get_corename)();
};

/// Throws UserError if the library that the build found is gone. On a processor with the extensions
/// of a Skylake-X it is loaded as for that one, unless OPENBLAS_CORETYPE is set: Debian 12's takes
/// processors with AVX-512 that it does not know for slower ones, AMD's for a Haswell, Intel's
/// newest without AMX for a Prescott, with products at half their rate and less.
const Functions& functions();

}  // namespace scaling::openblas
