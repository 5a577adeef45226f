// Two kinds of error, never mixed: CHECK for our bugs, UserError for what a user can mend.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace scaling {

/// Something the user gave or asked for cannot be done. The message names the value, the reason and
/// the remedy in one sentence; programs print it without a stack trace and exit with status 2.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(message) {}
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace scaling

/// Aborts with file and line: a broken condition is a bug of this project, not of its user.
#define SCALING_CHECK(condition) \
  ((condition) ? void(0) : ::scaling::check_failed(#condition, __FILE__, __LINE__))
