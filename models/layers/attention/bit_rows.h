// Rows of bits: which of a query's keys it meets.
#pragma once

#include <cstdint>

namespace scaling {

/// Bits of a row of n keys: bit i is whether x[i] is at most the limit. row: of (n + 63) / 64
/// words.
void mark_at_most(const float* x, std::int64_t n, float limit, std::uint64_t* row);

}  // namespace scaling
