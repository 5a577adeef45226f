// Gives the libraries behind kernel sets their threads, and says which libraries they are.
#include "kernels/library_threads.h"

#include "kernels/check.h"
#include "kernels/library_backends.h"

namespace scaling {
namespace {

struct Library {
  std::string kernel_set;
  const KernelSet& (*kernels)();
  void (*set_threads)(int);
  std::string (*description)();
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> all = {
      {"eigen", eigen_kernels, set_eigen_threads, eigen_description},
#ifdef SCALING_OPENBLAS
      {"openblas", openblas_kernels, set_openblas_threads, openblas_description},
#endif
#ifdef SCALING_ONEDNN
      {"onednn", onednn_kernels, set_onednn_threads, onednn_description},
#endif
  };
  return all;
}

}  // namespace

const std::vector<std::string>& library_sets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Library& library : libraries()) all.push_back(library.kernel_set);
    return all;
  }();
  return names;
}

void set_library_threads(const std::string& kernel_set, int threads) {
  SCALING_CHECK(threads >= 1);
  for (const Library& library : libraries()) {
    if (library.kernel_set != kernel_set) continue;
    library.kernels();  // its first use sets one thread, and must not come after this
    library.set_threads(threads);
  }
}

std::string library_description(const std::string& kernel_set) {
  for (const Library& library : libraries()) {
    if (library.kernel_set == kernel_set) return library.description();
  }
  return "";
}

}  // namespace scaling
