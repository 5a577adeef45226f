// Vectors of at most one panel, loaded from either weight type; included once per instruction set.
#if defined(SCALING_KERNELS_SIMD_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SCALING_KERNELS_SIMD_VECTOR_INL_H_
#undef SCALING_KERNELS_SIMD_VECTOR_INL_H_
#else
#define SCALING_KERNELS_SIMD_VECTOR_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "hwy/highway.h"
#include "kernels/weight.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Lanes of a float vector, at most a panel, so that a panel is always whole vectors.
inline constexpr std::int64_t kLanes =
    HWY_MIN(std::int64_t(kPanel), std::int64_t(HWY_LANES(float)));
inline constexpr int kVectorsOfPanel = int(kPanel / kLanes);
using Floats = hn::FixedTag<float, std::size_t(kLanes)>;
using Vector = hn::Vec<Floats>;

HWY_INLINE Vector load(const float* p) { return hn::LoadU(Floats(), p); }

/// A bf16 is the upper half of a float.
HWY_INLINE Vector load(const bf16* p) {
  const hn::FixedTag<std::uint32_t, std::size_t(kLanes)> words;
  const hn::FixedTag<std::uint16_t, std::size_t(kLanes)> halves;
  const auto bits = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}

/// The first n < kLanes elements, zeros behind; reads nothing past them.
template <class T>
HWY_INLINE Vector load_first(const T* p, std::int64_t n) {
  alignas(64) float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = to_float(p[i]);
  return hn::Load(Floats(), lanes);
}

HWY_INLINE void store(Vector v, float* p) { hn::StoreU(v, Floats(), p); }

HWY_INLINE void store_first(Vector v, float* p, std::int64_t n) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, Floats(), lanes);
  for (std::int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

HWY_INLINE Vector broadcast(float v) { return hn::Set(Floats(), v); }

/// body(0), ..., body(kN - 1), each by itself. For sums that are to stay in registers: of an array
/// that a loop goes over, GCC 12 may unroll the loop and still write all of it to the stack at
/// every step, which halves what Intel's cores multiply.
template <int kN, class Body>
HWY_INLINE void unrolled(Body&& body) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) HWY_ATTR {
    (body(std::integral_constant<int, kI>()), ...);
  }
  (std::make_integer_sequence<int, kN>());
}
HWY_INLINE Vector zero() { return hn::Zero(Floats()); }
HWY_INLINE float sum(Vector v) { return hn::GetLane(hn::SumOfLanes(Floats(), v)); }

template <class T>
HWY_INLINE void prefetch(const T* p) {
#if defined(__GNUC__)
  __builtin_prefetch(p, 0, 3);
#else
  hwy::Prefetch(p);
#endif
}

/// The same into the second-level cache, for what is read only after everything now at hand.
template <class T>
HWY_INLINE void prefetch_far(const T* p) {
#if defined(__GNUC__)
  __builtin_prefetch(p, 0, 2);
#else
  hwy::Prefetch(p);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#endif
