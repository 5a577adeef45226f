// Texts of the refusals.
#include "models/config_checks.h"

#include "kernels/check.h"

namespace scaling {

namespace {

/// Sums of sizes, and twice one, stay far from what 64 bits hold.
constexpr std::int64_t kLargest = std::int64_t(1) << 40;

}  // namespace

void require_positive(const char* name, std::int64_t value) {
  if (value <= 0) {
    throw UserError(std::string(name) + " " + std::to_string(value) +
                    " is not positive; give a number of at least 1");
  }
  require_at_most(name, value, kLargest);
}

void require_not_negative(const char* name, std::int64_t value) {
  if (value < 0) {
    throw UserError(std::string(name) + " " + std::to_string(value) +
                    " must not be negative; give 0 or more");
  }
  require_at_most(name, value, kLargest);
}

void require_divides(const char* whole, std::int64_t n, const char* part, std::int64_t parts) {
  require_positive(part, parts);
  if (n % parts != 0) {
    throw UserError(std::string(whole) + " " + std::to_string(n) + " is not divisible by " + part +
                    " " + std::to_string(parts) + "; change one of the two");
  }
}

void require_at_most(const char* name, std::int64_t value, std::int64_t most) {
  if (value > most) {
    throw UserError(std::string(name) + " " + std::to_string(value) + " exceeds " +
                    std::to_string(most) + ", the most this build computes; choose a smaller one");
  }
}

}  // namespace scaling
