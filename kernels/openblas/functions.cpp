// Loads OpenBLAS and looks its functions up.
#include "kernels/openblas/functions.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "kernels/check.h"

namespace scaling::openblas {
namespace {

/// Of what OpenBLAS's kernels for Skylake-X use.
bool has_extensions_of_skylake_x() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

void* library() {
  if (has_extensions_of_skylake_x()) setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
  // The file that was found is of the development package; the second name is the library's own.
  for (const char* name : {SCALING_OPENBLAS, "libopenblas.so.0"}) {
    if (void* found = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return found;
  }
  throw UserError("OpenBLAS, with which this was built, cannot be loaded: " +
                  std::string(dlerror()) + "; install it again or choose another library");
}

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) {
    throw UserError(std::string("the OpenBLAS that was loaded has no ") + name +
                    "; install another or choose another library");
  }
}

Functions load() {
  void* from = library();
  Functions found;
  look_up(from, "cblas_sgemv", found.sgemv);
  look_up(from, "cblas_sgemm", found.sgemm);
  look_up(from, "openblas_set_num_threads", found.set_num_threads);
  look_up(from, "openblas_get_config", found.get_config);
  look_up(from, "openblas_get_corename", found.get_corename);
  return found;
}

}  // namespace

const Functions& functions() {
  static const Functions loaded = load();
  return loaded;
}

}  // namespace scaling::openblas
