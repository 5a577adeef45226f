// Runs a program through a shell and keeps what it prints.
#include "tests/experiments/driver_run.h"

#include <sys/wait.h>

#include <cstdio>

namespace scaling {

Outcome run_program(const std::string& program, const std::string& arguments) {
  const std::string path = std::string(BINARY_DIR) + "/" + program;
  FILE* pipe = popen(("'" + path + "' " + arguments + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

Outcome run_driver(const std::string& driver, const std::string& arguments) {
  return run_program("experiments/" + driver, arguments);
}

}  // namespace scaling
