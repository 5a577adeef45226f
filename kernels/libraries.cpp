// The one explicit list of libraries.
#include "kernels/libraries.h"

#include "kernels/check.h"

namespace scaling {
namespace {

const Library* find(const std::string& name) {
  for (const Library& library : libraries()) {
    if (library.name == name) return &library;
  }
  return nullptr;
}

}  // namespace

const std::vector<Library>& libraries() {
  static const std::vector<Library> all = {
      eigen_library(),
#ifdef SCALING_OPENBLAS
      openblas_library(),
#endif
#ifdef SCALING_ONEDNN
      onednn_library(),
#endif
  };
  return all;
}

const std::vector<std::string>& library_names() {
  static const std::vector<std::string> names = {"eigen", "openblas", "onednn"};
  return names;
}

void set_library_threads(const std::string& kernel_set, int threads) {
  SCALING_CHECK(threads >= 1);
  const Library* library = find(kernel_set);
  if (!library) return;
  library->kernels();  // its first use sets one thread, and must not come after this
  library->set_threads(threads);
}

std::string library_description(const std::string& kernel_set) {
  const Library* library = find(kernel_set);
  return library ? library->description() : "";
}

}  // namespace scaling
