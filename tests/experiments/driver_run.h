// A built program as a user meets it.
#pragma once

#include <string>

namespace scaling {

/// Standard output and error together; status -1: ended by a signal.
struct Outcome {
  int status;
  std::string text;
};

/// program: below the build's folder. arguments: as in a shell.
Outcome run_program(const std::string& program, const std::string& arguments);

Outcome run_driver(const std::string& driver, const std::string& arguments);

}  // namespace scaling
