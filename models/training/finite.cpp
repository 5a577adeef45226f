// Looks at exponents' bits, which compilers vectorise.
#include "models/training/finite.h"

#include <bit>
#include <cstdint>

#include "kernels/parallel.h"

namespace scaling {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // floats a unit of work

bool all_finite(const float* values, std::int64_t n) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t bad = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    bad |= std::uint32_t((std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent);
  }
  return bad == 0;
}

/// By all threads.
bool shared_all_finite(const float* values, std::int64_t n) {
  if (n <= 2 * kBlock) return all_finite(values, n);
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  bool finite = true;
  parallel_for(blocks, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kBlock, last = end < blocks ? end * kBlock : n;
    if (all_finite(values + first, last - first)) return;
#ifdef _OPENMP
#pragma omp critical(scaling_all_finite)
#endif
    finite = false;
  });
  return finite;
}

}  // namespace

bool values_are_finite(const std::vector<Parameter*>& parameters) {
  for (Parameter* p : parameters) {
    if (!shared_all_finite(p->values(), p->count())) return false;
  }
  return true;
}

bool gradients_are_finite(const std::vector<Parameter*>& parameters) {
  for (const Parameter* p : parameters) {
    if (p->gradient && !shared_all_finite(p->gradient, p->count())) return false;
  }
  return true;
}

std::string what_is_not_finite(const std::vector<Parameter*>& parameters) {
  for (Parameter* p : parameters) {
    if (!shared_all_finite(p->values(), p->count())) {
      return "the values of " + p->name + " are not finite";
    }
  }
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    if ((*p)->gradient && !shared_all_finite((*p)->gradient, (*p)->count())) {
      return "the gradient of " + (*p)->name + " is not finite";
    }
  }
  return "";
}

}  // namespace scaling
