// Finds out before anything is measured whether the measurements can be kept.
#include "experiments/study/results_dir.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "experiments/study/provenance.h"
#include "kernels/check.h"

namespace scaling {

std::string prepare_results_dir(const std::string& chosen, const std::string& machine) {
  namespace fs = std::filesystem;
  const fs::path dir =
      chosen.empty() ? fs::path(source_dir()) / "results" / "local" / machine : fs::path(chosen);
  const auto refuse = [&dir](const std::string& reason) {
    throw UserError("the results folder '" + dir.string() + "' cannot be written (" + reason +
                    "); choose another with --results DIR");
  };
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) refuse(error.message());
  const fs::path probe = dir / ".writable";
  FILE* file = std::fopen(probe.c_str(), "w");
  if (!file) refuse(std::strerror(errno));
  std::fclose(file);
  fs::remove(probe, error);
  return dir.string();
}

}  // namespace scaling
