// A built program as a user meets it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace scaling {

/// Standard output and error together; status -1: ended by a signal.
struct Outcome {
  int status;
  std::string text;
};

/// program: below the build's folder. arguments: as in a shell.
inline Outcome run_program(const std::string& program, const std::string& arguments) {
  const std::string path = std::string(BINARY_DIR) + "/" + program;
  FILE* pipe = popen(("'" + path + "' " + arguments + " 2>&1").c_str(), "r");
  std::string text;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

inline Outcome run_driver(const std::string& driver, const std::string& arguments) {
  return run_program("experiments/" + driver, arguments);
}

}  // namespace scaling
