// What validation of knobs has in common: refusals that name the knob, the number and the remedy.
#pragma once

#include <cstdint>
#include <string>

namespace scaling {

/// These two also refuse what exceeds 2^40, whose sums and products nobody checks.
void require_positive(const char* name, std::int64_t value);
void require_not_negative(const char* name, std::int64_t value);
/// parts: positive, and a divisor of n.
void require_divides(const char* whole, std::int64_t n, const char* part, std::int64_t parts);
void require_at_most(const char* name, std::int64_t value, std::int64_t most);

}  // namespace scaling
